"""A real SLURM of one node with two pretend GPUs, in a folder of its own, while a test needs it."""

import os
import socket
import stat
import subprocess
import time

from tests.needed import missing, needed_program

PATIENCE = 60.0
"""Seconds in which daemons that take one or two have started."""

CONF = """\
ClusterName=stepsweep
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ctld_port}
SlurmdPort={d_port}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/ctld
SlurmdSpoolDir={folder}/d
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
ReturnToService=2
KillWait=5
SchedulerType=sched/builtin
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
GresTypes=gpu
NodeName={host} NodeAddr=127.0.0.1 CPUs=2 RealMemory=8000 Gres=gpu:2 State=UNKNOWN
PartitionName=debug Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""
"""Without accounting, as on the smallest clusters; one core and one GPU each make two jobs at once."""


class Cluster:
    """munged, slurmctld and slurmd, and the environment in which their commands find them."""

    def __init__(self, folder):
        """Start it in `folder`; without SLURM or the right to make devices the test ends, see `missing`."""
        for program in ("munged", "slurmctld", "slurmd", "sbatch", "squeue"):
            needed_program(program)
        if os.geteuid() != 0:
            missing("a SLURM with pretend GPUs needs root, who alone makes device files")
        self.folder = folder
        self.environment = {"SLURM_CONF": str(folder / "slurm.conf")}
        self._daemons = []
        self._configure()
        key = folder / "munge.key"
        key.touch(mode=0o600)
        key.write_bytes(os.urandom(1024))
        files = {"key": key, "socket": folder / "munge.socket", "pid": folder / "munged.pid"}
        self._start(
            *("munged", "--foreground", "--force", f"--key-file={key}", f"--socket={files['socket']}"),
            *(f"--pid-file={files['pid']}", f"--seed-file={folder}/munge.seed"),
            *(f"--log-file={folder}/munged.log",),
        )
        self._wait("munge", files["socket"].exists)
        self._start("slurmctld", "-D")
        self._start("slurmd", "-D")
        self._wait("an idle node", lambda: self.command("sinfo", "--noheader", "--format=%T") == "idle\n")

    def _configure(self):
        folder = self.folder
        for name in ("ctld", "d", "dev"):
            (folder / name).mkdir()
        with socket.socket() as one, socket.socket() as two:
            one.bind(("127.0.0.1", 0))
            two.bind(("127.0.0.1", 0))
            ports = {"ctld_port": one.getsockname()[1], "d_port": two.getsockname()[1]}
        host = socket.gethostname().partition(".")[0]
        (folder / "slurm.conf").write_text(CONF.format(host=host, folder=folder, **ports))
        # SLURM sets CUDA_VISIBLE_DEVICES for character devices alone, and with this flag.
        (folder / "gres.conf").write_text(f"Name=gpu File={folder}/dev/nvidia[0-1] Flags=nvidia_gpu_env\n")
        for number in range(2):
            os.mknod(folder / "dev" / f"nvidia{number}", 0o600 | stat.S_IFCHR, os.makedev(195, number))

    def _start(self, program, *arguments):
        log = (self.folder / f"{program}.out").open("wb")
        self._daemons.append(
            subprocess.Popen(
                [needed_program(program), *arguments],
                env=os.environ | self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        )
        log.close()

    def _wait(self, what, condition):
        deadline = time.monotonic() + PATIENCE
        while not condition():
            ended = [d.args[0] for d in self._daemons if d.poll() is not None]
            if ended or time.monotonic() > deadline:
                logs = "\n".join(p.read_text(errors="replace") for p in self.folder.glob("*.out"))
                self.stop()
                raise AssertionError(f"no {what}; ended: {ended}\n{logs}")
            time.sleep(0.1)

    def command(self, *arguments):
        """Run one of SLURM's commands; return what it printed."""
        done = subprocess.run(
            arguments, env=os.environ | self.environment, capture_output=True, text=True, check=False
        )
        return done.stdout

    def states(self):
        """Return the states of all jobs that SLURM still knows, by id."""
        lines = self.command("squeue", "--noheader", "--array", "--states=all", "--format=%i %T").splitlines()
        return dict(line.split() for line in lines)

    def stop(self):
        """Cancel what is left and end the daemons."""
        self.command("scancel", "--user=root")
        deadline = time.monotonic() + PATIENCE
        while self.command("squeue", "--noheader") and time.monotonic() < deadline:
            time.sleep(0.2)
        for daemon in reversed(self._daemons):
            daemon.terminate()
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
