"""Failures seen from Python, and the ways in which ranks find each other."""

import os
import signal
import subprocess
import sys
import textwrap
import time
import unittest

import support


def program(text):
    return ["-c", "import array, os, signal, sys, time, tutti\n" + textwrap.dedent(text)]


class Failures(support.WithPackage):
    def started(self, n, text):
        """Processes that find each other by an id, without a launcher that would end them all."""
        made = self.package.folder + f"/id-{self.id()}"
        head = f"""
        path, rank, size = {made!r}, int(sys.argv[1]), {n}
        def identity():
            if rank == 0:
                made = tutti.UniqueId.create()
                open(path + ".new", "wb").write(made)
                os.rename(path + ".new", path)
                return made
            while not os.path.exists(path): time.sleep(0.01)
            return open(path, "rb").read()
        comm = tutti.Comm.from_id(identity(), rank, size, setup=50)
        """
        words = program(textwrap.dedent(head) + textwrap.dedent(text))
        return [subprocess.Popen([sys.executable, *words, str(rank)], env=self.package.environment, text=True,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE) for rank in range(n)]

    def ends(self, processes):
        results = []
        for process in processes:
            out, err = process.communicate(timeout=60)
            results.append((process.returncode, out, err))
        return results

    def test_a_deadline_is_an_exception_with_status_rank_peer_and_call(self):
        results = self.ends(self.started(2, """
        comm.Barrier()
        if rank == 1:
            time.sleep(2.5)
            sys.exit(0)
        start = time.monotonic()
        try:
            comm.Allreduce(bytearray(8), bytearray(8), config=tutti.Config(timeout=0.5))
        except tutti.DeadlineError as problem:
            assert isinstance(problem, TimeoutError) and isinstance(problem, tutti.Error)
            print(problem.status.name, problem.rank, problem.peer, problem.call, 0.4 < time.monotonic() - start < 2.4)
        """))
        self.assertEqual(results[0][1], "TIMEOUT 0 1 2 True\n", results)

    def test_a_rank_that_is_killed_is_named_where_others_wait_for_it_in_a_call(self):
        processes = self.started(3, """
        comm.Barrier()
        if rank == 2:
            print("in", flush=True)
            time.sleep(60)  # in no other call, which would be a mismatch
        try:
            comm.Allreduce(array.array("d", [1] * 1000), array.array("d", [0] * 1000))
        except tutti.PeerFailedError as problem:
            print(problem.status.name, problem.peer, "rank 2" in problem.text)
            comm.free()
        """)
        self.assertEqual(processes[2].stdout.readline(), "in\n")
        processes[2].send_signal(signal.SIGKILL)
        results = self.ends(processes)
        self.assertEqual([out for _, out, _ in results[:2]], ["PEER_FAILED 2 True\n"] * 2, results)

    def test_different_calls_are_a_mismatch(self):
        results = self.ends(self.started(2, """
        try:
            comm.Allreduce(bytearray(8), bytearray(8)) if rank == 0 else comm.Allreduce(bytearray(9), bytearray(9))
        except tutti.MismatchError as problem:
            print(problem.status.name, problem.call)
        """))
        self.assertEqual([out for _, out, _ in results], ["MISMATCH 1\n"] * 2, results)

    def test_abort_ends_the_others_calls_and_so_does_an_exception_in_a_with_block(self):
        results = self.ends(self.started(2, """
        try:
            with comm:
                if rank == 1: raise KeyError("lost")
                comm.Barrier()
        except (tutti.AbortedError, KeyError) as problem:
            print(type(problem).__name__, "lost" in str(problem))
        """))
        self.assertEqual([out for _, out, _ in results], ["AbortedError True\n", "KeyError True\n"], results)

    def test_an_operator_that_raises_ends_the_call_on_all_ranks(self):
        results = self.ends(self.started(2, """
        def combine(lower, higher, out):
            if rank == 1: raise ZeroDivisionError("mine")
            out[:] = lower
        for count in (1, 100000):
            other = comm.dup()
            try:
                other.Allreduce(array.array("q", [1] * count), array.array("q", [0] * count), tutti.UserOp(combine))
                other.Barrier()  # this rank may have had its result before the other failed
            except tutti.AbortedError as problem:
                print(problem.status.name, problem.peer, type(problem.__cause__).__name__)
        """))
        self.assertEqual(results[0][1], "ABORTED 1 NoneType\n" * 2, results)
        self.assertEqual(results[1][1], "ABORTED 1 ZeroDivisionError\n" * 2, results)

    def test_a_codec_that_raises_ends_the_call_on_all_ranks(self):
        results = self.ends(self.started(2, """
        vector, out = array.array("f", [1] * 1000), array.array("f", [0] * 1000)
        def fails(*_):
            if rank == 1: raise ZeroDivisionError("mine")
            return 4000
        def nothing(*_): pass
        for functions in ((lambda n: 4 * n, fails, nothing), (lambda n: 4 * n, nothing, fails), (fails, nothing, nothing)):
            other = comm.dup()
            try:
                other.Allreduce_coded(vector, out, tutti.UserCodec("broken", *functions))
                other.Barrier()  # this rank may have had its result before the other failed
            except tutti.AbortedError as problem:
                print(problem.status.name, problem.rank, problem.peer, type(problem.__cause__).__name__)
        """))
        self.assertEqual(results[0][1], "ABORTED 0 1 NoneType\n" * 3, results)
        self.assertEqual(results[1][1], "ABORTED 1 1 ZeroDivisionError\n" * 3, results)

    def test_compressed_calls_that_differ_are_a_mismatch_and_the_residual_stays(self):
        results = self.ends(self.started(2, """
        topk = tutti.TopK(100, 5 + rank)
        topk.residual[:] = array.array("f", [3] * 100)
        try:
            comm.Allreduce_topk(array.array("f", [1] * 100), array.array("f", [0] * 100), topk)
        except tutti.MismatchError as problem:
            print(problem.status.name, problem.rank, list(topk.residual) == [3] * 100)
        """))
        self.assertEqual([out for _, out, _ in results], [f"MISMATCH {rank} True\n" for rank in range(2)], results)

    def test_a_group_whose_peer_does_not_come_ends_by_its_deadline(self):
        results = self.ends(self.started(2, """
        comm.Barrier()
        if rank == 1:
            time.sleep(2)
            sys.exit(0)
        try:
            with comm.group(tutti.Config(timeout=0.5)):
                comm.Send(bytearray(8), 1)
                comm.Recv(bytearray(8), 1)
        except tutti.DeadlineError as problem:
            print(problem.status.name, problem.rank, problem.peer)
        try: comm.Send(bytearray(8), 1)
        except tutti.DeadlineError: print("over")
        """))
        self.assertEqual(results[0][1], "TIMEOUT 0 1\nover\n", results)

    def test_other_threads_run_while_a_call_waits(self):
        results = self.ends(self.started(2, """
        import threading
        if rank == 0:
            counted = 0
            def count():
                global counted
                while True: counted += 1; time.sleep(0.001)
            threading.Thread(target=count, daemon=True).start()
            comm.Barrier()
            print(counted > 50)
        else:
            time.sleep(0.7); comm.Barrier()
        """))
        self.assertEqual(results[0][1], "True\n", results)

    def test_ranks_may_be_threads(self):
        ran = self.package.python(*program("""
        import threading
        made, sums = tutti.UniqueId.create(), [0, 0, 0]
        def work(rank):
            with tutti.Comm.from_id(made, rank, 3) as comm:
                out = array.array("d", [0])
                comm.Allreduce(array.array("d", [rank + 1]), out)
                sums[rank] = out[0]
        threads = [threading.Thread(target=work, args=(rank,)) for rank in range(3)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        print(sums)
        """))
        self.assertEqual((ran.stdout, ran.stderr), ("[6.0, 6.0, 6.0]\n", ""))

    def test_alone_it_is_a_communicator_of_one(self):
        ran = self.package.python(*program("""
        with tutti.init() as comm: print(comm.rank, comm.size, comm.allgather(5), tutti.__version__)
        """))
        self.assertEqual((ran.stdout, ran.stderr), ("0 1 [5] 0.1.0\n", ""))

    def test_launchers_in_the_manner_of_torchrun(self):
        key = self.package.folder + "/key"
        with open(os.open(key, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
            file.write(os.urandom(32))
        import socket
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        words = program("comm = tutti.init(); print(comm.allgather(comm.rank))")
        processes = [subprocess.Popen([sys.executable, *words], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={
            **self.package.environment, "RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(rank),
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "TUTTI_KEY_FILE": key}) for rank in range(2)]
        self.assertEqual([out for _, out, _ in self.ends(processes)], ["[0, 1]\n"] * 2)

    def test_plain_processes_with_an_allgather_over_a_socket(self):
        """As workers of Spark, Dask or Ray: they know an address of one of them, and nothing of tutti."""
        processes = [subprocess.Popen([sys.executable, os.path.join(os.path.dirname(__file__), "by_socket.py"),
                                       self.package.folder + "/socket", str(rank), "3"], env=self.package.environment,
                                      text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for rank in range(3)]
        results = self.ends(processes)
        self.assertEqual([out for _, out, _ in results], ["sum 6.0 over shm\n"] * 3, results)

    def test_an_allgather_that_fails_is_raised(self):
        ran = self.package.python(*program("""
        def broken(mine): raise OSError("no line")
        for allgather in (broken, lambda mine: [mine]):
            try: tutti.Comm.from_allgather(allgather, 0, 2, setup=2)
            except (OSError, ValueError) as problem: print(problem)
        """))
        lines = ran.stdout.splitlines()
        self.assertEqual(lines[0], "no line", ran.stderr)
        self.assertRegex(lines[1], "^the all-gather returned blocks of")

    def test_children_by_fork_are_refused_what_is_their_parents_and_make_their_own(self):
        ran = self.package.python(*program("""
        import multiprocessing
        comm = tutti.init()
        def child(queue, made, rank):
            try: comm.Barrier()
            except tutti.InvalidError as problem: refused = "fork" in str(problem)
            with tutti.Comm.from_id(made, rank, 2) as own: queue.put((refused, own.allgather(rank)))
        def first(queue, rank, pipes):
            made = tutti.UniqueId.create() if rank == 0 else None
            if rank == 0: pipes[0].send_bytes(made)
            child(queue, made or pipes[1].recv_bytes(), rank)
        context = multiprocessing.get_context("fork")
        queue, pipes = context.Queue(), context.Pipe()
        workers = [context.Process(target=first, args=(queue, rank, pipes)) for rank in range(2)]
        for worker in workers: worker.start()
        print(queue.get(timeout=30), queue.get(timeout=30))
        for worker in workers: worker.join()
        comm.Barrier(); comm.free(); print([worker.exitcode for worker in workers])
        """))
        self.assertEqual(ran.stdout, "(True, [0, 1]) (True, [0, 1])\n[0, 0]\n", ran.stderr)

    def test_children_by_spawn(self):
        path = self.package.folder + "/spawned.py"
        with open(path, "w") as file:
            file.write(textwrap.dedent("""
            import multiprocessing, tutti
            def work(rank, pipes, queue):
                if rank == 0:
                    made = tutti.UniqueId.create(); pipes[0].send_bytes(made)
                else: made = pipes[1].recv_bytes()
                with tutti.Comm.from_id(made, rank, 2) as comm: queue.put(comm.allgather(rank))
            if __name__ == "__main__":
                context = multiprocessing.get_context("spawn")
                queue, pipes = context.Queue(), context.Pipe()
                workers = [context.Process(target=work, args=(rank, pipes, queue)) for rank in range(2)]
                for worker in workers: worker.start()
                print(queue.get(timeout=30), queue.get(timeout=30))
                for worker in workers: worker.join()
            """))
        ran = self.package.python(path)
        self.assertEqual(ran.stdout, "[0, 1] [0, 1]\n", ran.stderr)


if __name__ == "__main__":
    unittest.main()
