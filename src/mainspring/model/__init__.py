"""The values that travel through Mainspring: frozen, slotted, and free of I/O."""
