"""What is wrong with a GPU, its driver, or whoever uses it."""

from __future__ import annotations

from precheck_lib.catalogue.entry import Entry

_RESET = "Drain the host and reset the card (`nvidia-smi --gpu-reset -i N`), or reboot; replace it where it comes back."

ENTRIES = {
    # The driver ----------------------------------------------------------------------------------------------------
    "gpu.mismatch": Entry(
        "NVIDIA's driver in the kernel and its library on disk are of different versions: nothing new can use a card.",
        ("an unattended upgrade of the driver's packages, without a reboot since", "two drivers are installed"),
        "Reboot the host, or unload and load the driver's modules; then hold its packages (`apt-mark hold`).",
    ),
    "gpu.library": Entry(
        "NVIDIA's library, through which every tool asks for the cards, is not there.",
        (
            "the driver is not installed",
            "a container that was started without `--gpus`",
            "a library path that is not set",
        ),
        "Install the driver on this host, or give the container its GPUs.",
    ),
    "gpu.driver": Entry(
        "NVIDIA's driver is not loaded.",
        ("the kernel was upgraded and the driver's module was not built for it", "Secure Boot refuses the module"),
        "See `dkms status` and `modprobe nvidia` on this host, and build the module for the running kernel.",
    ),
    "gpu.refused": Entry(
        "NVIDIA's driver is there and refuses to work.",
        (
            "a container that has lost its devices (`systemctl daemon-reload` on the host does that)",
            "device nodes that this user may not open",
            "a card that has fallen off the bus",
        ),
        "Start the container anew, or see the kernel's log (`dmesg | grep -i nvrm`) on this host.",
    ),
    "gpu.hung": Entry(
        "A call into the GPU's driver did not come back in time.",
        ("the driver hangs, and whoever asks it with it", "without persistence mode the first call loads it, for 25 s"),
        "See `dmesg` on this host, and reboot it where a process hangs in the driver; where it is only slow, turn on "
        "nvidia-persistenced.",
        retryable=True,
    ),
    "gpu.version": Entry(
        "The driver, or the newest CUDA that it runs, is not of the version that is wanted.",
        ("a host that was not upgraded with the others", "an upgrade that came by itself"),
        "Install the wanted driver on this host, or move the constraint in the spec.",
    ),
    "gpu.persistence": Entry(
        "The driver was loaded anew for this look, which takes seconds: persistence mode is off.",
        ("nvidia-persistenced does not run",),
        "Start nvidia-persistenced on this host.",
    ),
    "gpu.unknown": Entry(
        "What the system says of its GPUs, or of those who use them, could not be read in time.",
        ("a machine under very high load", "a process that hangs in the kernel"),
        "Look at the load and the kernel's log of this host.",
        retryable=True,
    ),
    # The cards -----------------------------------------------------------------------------------------------------
    "gpu.none": Entry(
        "There is no GPU that can be used.",
        ("this runner has none", "the container was not given one", "the driver has given up the card"),
        "Send the job to a runner with a GPU (labels of `runs-on`), or see on this host why the card is not there.",
    ),
    "gpu.count": Entry(
        "There are not as many usable GPUs as there have to be.",
        ("a card has fallen off the bus", "a card is another container's", "the spec is for another host"),
        "See the kernel's log of this host (`dmesg | grep -i nvrm`), or correct the number in the spec.",
    ),
    "gpu.missing": Entry(
        "A card is on the bus and belongs to NVIDIA's driver, which does not list it.",
        ("the card has fallen off the bus, or did not start",),
        "Reboot the host; replace the card where it comes back.",
    ),
    "gpu.lost": Entry(
        "A card is lost: it is still counted, and cannot be reached any more.",
        ("it has fallen off the bus (Xid 79)", "power or heat"),
        "Drain and reboot the host; see power and cooling, and replace the card where it comes back.",
    ),
    "gpu.reset": Entry(
        "A card has to be reset before it can be trusted again.", ("a fault of the card (see Xid)",), _RESET
    ),
    "gpu.unread": Entry(
        "A card does not tell what every healthy card tells (`ERR!` in nvidia-smi).",
        ("the card has crashed while the driver still lists it", "a virtual machine or container that hides it"),
        "See the kernel's log of this host (`dmesg | grep -i nvrm`), and reset the card or reboot.",
    ),
    "gpu.ecc": Entry(
        "A card had memory errors that could not be corrected: what ran on it may be wrong.",
        ("broken memory",),
        _RESET,
    ),
    "gpu.remap": Entry(
        "A card waits for broken rows of its memory to be replaced, or they cannot be any more.",
        ("broken memory",),
        _RESET,
    ),
    "gpu.pages": Entry("A card has memory pages to retire at its next reset.", ("ageing memory",), _RESET),
    "gpu.inforom": Entry(
        "A card's inforom is corrupted; it can be used.",
        ("a firmware update that broke off",),
        "Nothing at once; tell the maker of the card.",
    ),
    "gpu.prohibited": Entry(
        "A card is in compute mode `prohibited`.",
        ("somebody has set it so, to keep jobs away while they repair it",),
        "Ask who did it; then `nvidia-smi -i N -c DEFAULT` on this host.",
    ),
    "gpu.throttled": Entry(
        "A card is slowed down by its hardware.",
        ("it is too hot: fans, dust, room", "its power supply asks for it"),
        "See cooling and power of this host.",
        retryable=True,
    ),
    "gpu.hot": Entry(
        "A card is nearer to the temperature at which it slows down than it may be.",
        ("fans, dust, room", "another job that has just ended"),
        "See the cooling of this host, or let it cool down.",
        retryable=True,
    ),
    "gpu.link": Entry(
        "A card uses fewer PCIe lanes than it could.",
        ("a slot or riser with fewer lanes", "a bad contact"),
        "Seat the card anew; where the slot has no more lanes, leave it so.",
    ),
    "gpu.model": Entry(
        "A card is of another model than the wanted one.",
        ("the job runs on another host than it was meant for",),
        "Correct the labels of `runs-on`, or the name in the spec.",
        who="job",
    ),
    "gpu.size": Entry(
        "A card has less memory than is needed.",
        ("the job runs on another host than it was meant for", "an instance of MIG that is too small"),
        "Correct the labels of `runs-on`, or ask for less in the spec.",
        who="job",
    ),
    "gpu.hidden": Entry(
        "The environment hides every card from this job.",
        ("CUDA_VISIBLE_DEVICES is empty, or names a card that this host does not have",),
        "Correct CUDA_VISIBLE_DEVICES: numbers as nvidia-smi has them, or UUIDs.",
        who="job",
    ),
    # Who uses them -------------------------------------------------------------------------------------------------
    "gpu.cuda": Entry(
        "CUDA itself does not work, though the tools may see the card.",
        (
            "a driver whose parts are of different versions",
            "nvidia-uvm is not loaded, or its device node is not in this container",
            "MIG is on and no instance was made",
        ),
        "See `dmesg` and /dev/nvidia-uvm on this host; load nvidia-uvm, or reboot.",
    ),
    "gpu.busy": Entry(
        "CUDA could not be tried on a card: its memory is full, or another process has it for itself.",
        ("another job or a model server holds the card",),
        "Nothing, where the card is shared on purpose.",
    ),
    "gpu.memory": Entry(
        "A card has less free memory than the job needs.",
        ("another job, or what one has left behind", "a model that is still loaded"),
        "End what holds it (the finding names it), or wait for it.",
        retryable=True,
    ),
    "gpu.foreign": Entry(
        "Somebody else uses a card.",
        ("another job on the same host", "what a job has left behind", "a person who tries something"),
        "Ask who it is, end what nobody needs, or name it under `tolerate`.",
        retryable=True,
    ),
    "gpu.ownerless": Entry(
        "Memory of a card is in use and belongs to no process.",
        (
            "a process was killed and the driver has not given its memory back",
            "a process of a container or another user",
        ),
        "Reset the card (`nvidia-smi --gpu-reset -i N`) when nobody uses it, or reboot the host.",
        retryable=True,
    ),
    "gpu.owners": Entry(
        "Who uses a card cannot be found out from here.",
        ("a container that does not see the host's processes",),
        "Run precheck on the host, or start the container with the host's processes (`--pid=host`).",
    ),
}
