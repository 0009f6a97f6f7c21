"""`python -m grilly report`: one file about a device, its driver and what its kernels compute.

`command` is the program, `processes` runs the parts of a report, `parts` is what such a process does.
"""
