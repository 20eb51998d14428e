"""What is on the machine: files, ports, processes, disks and memory."""

from __future__ import annotations

from precheck_lib.catalogue.entry import Entry

ENTRIES = {
    # Files ---------------------------------------------------------------------------------------------------------
    "file.absent": Entry(
        "A file or folder that has to be there is not.",
        ("it was never put on this machine", "another runner has it", "a link leads nowhere", "a share is not mounted"),
        "Put it where it has to be on this machine, or correct the path in the spec.",
    ),
    "file.present": Entry(
        "Something is there that must not be.",
        ("a lock or marker that an earlier job has left", "an installation that was not removed"),
        "See what it is for and remove it if nobody needs it.",
        retryable=True,
    ),
    "file.denied": Entry(
        "It cannot be seen whether a file is there: a folder on the way is closed to this user.",
        ("the runner runs as another user than the one that made it", "a home folder, which is closed to others"),
        "Let the runner's user enter the named folder (`chmod o+x`, a group, an access list), or run it as its owner.",
    ),
    "file.type": Entry(
        "What is there is of another type.",
        ("a folder made by mistake (Docker makes one for a mount whose file is missing)", "another path was meant"),
        "See what is there, remove it, and put the right thing in its place.",
    ),
    "file.access": Entry(
        "Permissions or owner of a file are not what they have to be.",
        ("it was made by another user, or by root in a container", "a file system that is mounted read-only"),
        "Set owner and mode on this machine (`chown`, `chmod`), or run the job as the right user.",
    ),
    "file.size": Entry(
        "A file is smaller than it can be.",
        ("a download that broke off", "a pointer of Git LFS in the place of the file"),
        "Fetch the file anew on this machine.",
    ),
    "file.old": Entry(
        "A file was not changed for longer than it may be.",
        ("what renews it (a timer, a job) has stopped",),
        "See why it is not renewed, and renew it.",
    ),
    "file.digest": Entry(
        "A file's content is not the one that is pinned by its SHA-256.",
        ("a download that broke off", "another version of the file", "somebody has changed it"),
        "Fetch the file anew on this machine, or move the pin in the spec.",
    ),
    "file.content": Entry(
        "A file does not hold the text that it has to hold.",
        ("another version of the file", "a setting that was never made on this machine"),
        "Look at the file on this machine and put the text in.",
    ),
    "file.unreadable": Entry(
        "A file is there, but what is in it could not be found out.",
        ("this user may not read it", "a failing disk or share", "it is larger than what is read of it"),
        "Let the runner's user read it.",
    ),
    "file.unknown": Entry(
        "It could not be found out what is at a path.",
        ("a network share whose server is gone", "a failing disk"),
        "Look at the path by hand on this machine; mount the share anew.",
        retryable=True,
    ),
    "file.deadline": Entry(
        "A look at a file did not come back in time.",
        ("a dead mount", "a slow disk or share, or a large file that is read for its SHA-256"),
        "Look at the path by hand on this machine; where it is only slow, give the check a larger `budget`.",
        retryable=True,
    ),
    # Ports ---------------------------------------------------------------------------------------------------------
    "port.closed": Entry(
        "Nobody listens on a port that has to be listened on.",
        ("the server is not running, or has crashed", "it listens on another port or address"),
        "Start the server on this machine, or correct the port in the spec.",
        retryable=True,
    ),
    "port.taken": Entry(
        "A port that has to be free is held.",
        (
            "a server of an earlier job was never ended",
            "another job uses this machine at the same time",
            "a service of this machine has the port",
        ),
        "See whose the named process is and end it, or give the job another port.",
        retryable=True,
    ),
    "port.owner": Entry(
        "Somebody else listens on a port than has to.",
        ("another program took the port first", "the server was started as another user or from another installation"),
        "End what holds the port and start the right server.",
    ),
    "port.other-job": Entry(
        "A server answers, but another job has started it.",
        ("an earlier job left it behind", "a job that shares this machine"),
        "Nothing has to be done where servers are shared; else end it and let this job start its own.",
        retryable=True,
    ),
    "port.unknown": Entry(
        "It cannot be seen who listens on a port.",
        ("the process is another user's", "it runs in a container or in another network namespace"),
        "Give the runner the right that is named, or ask only for what it can see.",
    ),
    "port.deadline": Entry(
        "The table of sockets could not be read in time.",
        ("an overloaded machine", "a process that hangs in a driver", "a directory service that does not answer"),
        "Look by hand on this machine (`ss -ltnp`) and see whether that hangs too.",
        retryable=True,
    ),
    # Processes -----------------------------------------------------------------------------------------------------
    "process.absent": Entry(
        "Fewer processes run than have to.",
        ("the service is not started, or has crashed", "it runs under another name"),
        "Start the service on this machine, or correct the name in the spec.",
        retryable=True,
    ),
    "process.present": Entry(
        "More processes run than may.",
        ("an earlier job left them behind", "another job uses this machine at the same time"),
        "See whose they are and end them.",
        retryable=True,
    ),
    "process.unknown": Entry(
        "It cannot be seen how many such processes run.",
        ("processes of other users hide what they are, or are hidden altogether (hidepid)",),
        "Ask for them by `name`, which everybody sees, or give the runner the right that is named.",
    ),
    "process.deadline": Entry(
        "The processes of this machine could not be looked at in time.",
        ("an overloaded machine", "a process that hangs in a driver", "a directory service that does not answer"),
        "Look by hand on this machine (`ps aux`) and see whether that hangs too.",
        retryable=True,
    ),
    # Disks and memory ----------------------------------------------------------------------------------------------
    "disk.full": Entry(
        "A file system has less room than is needed.",
        ("models, images or work folders that nobody removes", "logs", "another job that writes at the same time"),
        "Free room at the named mount point (`du -x`, `docker system df`), or give it a larger disk.",
        retryable=True,
    ),
    "disk.inodes": Entry(
        "A file system takes fewer new files than are needed, whatever room it has.",
        ("millions of small files in caches or work folders",),
        "Remove folders of many small files at the named mount point (`du --inodes -x`).",
    ),
    "disk.read-only": Entry(
        "A file system, or a folder in it, cannot be written.",
        ("the kernel mounted it read-only after an error of the disk", "it belongs to another user"),
        "Look into the kernel's log for errors of the disk; mount it anew, or set the owner.",
    ),
    "disk.absent": Entry(
        "The path whose file system is to be looked at is not there.",
        ("the disk is not mounted", "the folder was never made on this machine"),
        "Mount the disk or make the folder, or correct the path in the spec.",
    ),
    "disk.unknown": Entry(
        "It could not be found out how much room there is.",
        ("a folder on the way is closed to this user", "a share whose server is gone", "a file system without a size"),
        "Look at the path by hand on this machine (`df PATH`) as the runner's user.",
    ),
    "disk.deadline": Entry(
        "A look at a file system did not come back in time.",
        ("a dead mount", "a disk that hangs"),
        "Look at the path by hand on this machine (`df PATH`) and mount it anew.",
        retryable=True,
    ),
    "memory.low": Entry(
        "This machine has less memory than is needed.",
        ("another job or a leftover of one holds it", "a model that was loaded on the CPU", "a smaller machine"),
        "See what holds the memory (`ps aux --sort -rss`) and end it, or use a larger machine.",
        retryable=True,
    ),
    "memory.limit": Entry(
        "The limit of the job's control group leaves less memory than is needed, though this machine has more.",
        ("the container or the service was started with a limit", "what else runs in the group has used it up"),
        "Raise the limit (`docker run --memory`, MemoryMax= of the service), or end what else is in the group.",
    ),
    "memory.unknown": Entry(
        "It could not be found out how much memory there is.",
        ("/proc or /sys/fs/cgroup is hidden from this user",),
        "Let the runner's user read the named file.",
    ),
    "memory.deadline": Entry(
        "The memory of this machine could not be read in time.",
        ("an overloaded machine that is out of memory",),
        "Look at the machine by hand; it probably has no memory left.",
        retryable=True,
    ),
}
