"""Reading GPUs: what the kernel says (`system`), NVIDIA's driver through NVML (`nvml`), and CUDA itself (`cuda`).

Each gives plain values (`reading`); whether they are right is for others to say. What enters a driver is called in a
child process only (`Context.in_child`).
"""
