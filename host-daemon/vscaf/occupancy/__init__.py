"""Where the vCPU threads of domains run, from the kernel's accounting. For `vscaf plot` and `vscaf bench`."""
