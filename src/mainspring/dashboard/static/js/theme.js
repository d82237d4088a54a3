// Sets light or dark before the first paint; a module would run too late.
(function () {
  let chosen = null;
  try {
    chosen = localStorage.getItem("mainspring-theme");
  } catch {
    // Storage may be disabled: then the system's setting applies, and nothing is stored.
  }
  const dark = chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "dark" : "light";
})();
