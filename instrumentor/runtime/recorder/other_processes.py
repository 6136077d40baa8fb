"""CPU time of other processes while samples are taken: on a busy machine no median means anything.

Whether a run was busy is judged by the average over all of it, so a short peak of load says
nothing: sampling ends for it only once no quiet that could still come would change the average.
"""

import os
from typing import List, Optional

#: Share of the CPUs that others may keep busy, as the reports have it (clock/neighbours).
OTHERS_SHARE = 0.25


class Others:
    """Seconds of all CPUs that neither this process nor its descendants took, from a start on.

    Args:
        root: of the proc file system.
    """

    def __init__(self, root: str = "/proc") -> None:
        self.root = root
        self.cpus = os.cpu_count() or 1
        self.at_start: Optional[float] = None

    def start(self) -> None:
        """Count from now on."""
        self.at_start = self.taken_s()

    def used_s(self) -> Optional[float]:
        """Seconds since the start; None where the system does not say."""
        now = None if self.at_start is None else self.taken_s()
        return None if now is None or self.at_start is None else max(0.0, now - self.at_start)

    def taken_s(self) -> Optional[float]:
        """Seconds so far of all processes but ours."""
        try:
            with open(os.path.join(self.root, "stat"), "rb") as stream:
                user, nice, system, _, _, irq, softirq = map(int, stream.readline().split()[1:8])
            ours = sum(map(self.ticks, self.family(os.getpid())))
            return (user + nice + system + irq + softirq - ours) / os.sysconf("SC_CLK_TCK")
        except (OSError, ValueError, AttributeError):  # another system
            return None

    def family(self, pid: int) -> List[int]:
        """A process and its descendants; one that ends meanwhile is left out."""
        found = [pid]
        for each in found:
            folder = os.path.join(self.root, str(each), "task")
            try:
                for thread in os.listdir(folder):
                    with open(os.path.join(folder, thread, "children"), "rb") as stream:
                        found += map(int, stream.read().split())
            except OSError:
                if each == pid:  # a kernel that does not tell children: theirs would be others'
                    raise
        return found

    def ticks(self, pid: int) -> int:
        """CPU time of a process and of its ended children, in ticks; 0 once it is gone."""
        try:
            with open(os.path.join(self.root, str(pid), "stat"), "rb") as stream:
                return sum(map(int, stream.read().rpartition(b")")[2].split()[11:15]))
        except OSError:
            return 0
