SELECT at FROM mainspring_clock
