// Light or dark is decided before the first paint; a module would come too late for that.
(function () {
  let chosen = null;
  try {
    chosen = localStorage.getItem("mainspring-theme");
  } catch {
    // Storage may be forbidden: then the system decides, and nothing is remembered.
  }
  const dark = chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "dark" : "light";
})();
