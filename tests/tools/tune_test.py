"""`tutti tune` and `tutti info --tuning`: usage: tune_test.py TUTTI"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

TUTTI = sys.argv.pop(1)


def tutti(*arguments, **environment):
    env = {key: value for key, value in os.environ.items() if not key.startswith("TUTTI_")}
    return subprocess.run([TUTTI, *arguments], capture_output=True, text=True, timeout=240, env={**env, **environment})


class Tune(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.cache = {"XDG_CACHE_HOME": self.folder.name}

    def table(self, **environment):
        result = tutti("info", "--tuning", "--json", **{**self.cache, **environment})
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def dry_table(self):
        output = tutti("tune", "--seconds", "1", "--dry-run", "--transport", "tcp", **self.cache).stdout
        return output[output.index("{\n"):]

    def write(self, text):
        path = os.path.join(self.folder.name, "table.json")
        with open(path, "w") as file:
            file.write(text)
        return path

    def test_the_table_is_written_where_it_is_found(self):
        result = tutti("tune", "--seconds", "1", **self.cache)
        path = self.table()["own_path"]
        if result.returncode != 0:  # a busy machine may make any table look bad: then there is none
            self.assertRegex(result.stderr, "nothing was written")
            self.assertFalse(os.path.exists(path))
            return
        found = self.table()
        self.assertEqual(found["path"], path)
        self.assertIn(f"Tuning table {found['id']} written to {path}", result.stdout)
        with open(path) as file:
            self.assertEqual(json.load(file)["id"], found["id"])
        origins = {field["name"]: field["origin"] for field in found["fields"]}
        self.assertEqual(origins["rotated_bytes"], "measured")
        self.assertEqual(origins["tcp_stage_bytes"], "default")

    def test_a_dry_run_writes_nothing_and_prints_a_table(self):
        result = tutti("tune", "--seconds", "1", "--dry-run", **self.cache)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(os.listdir(self.folder.name), [])
        path = self.write(result.stdout[result.stdout.index("{\n"):])
        self.assertEqual(self.table(TUTTI_TUNING=path)["path"], path)

    def test_sockets_are_measured_by_a_job_and_the_rest_of_the_table_stays(self):
        machine = json.loads(self.dry_table())["machine"]
        shared = len(os.sched_getaffinity(0)) < 2  # the two ranks share a core
        hop = "socket_piece_us" if shared else "socket_hop_us"
        path = self.write(json.dumps({"tutti_tuning": 1, "machine": machine, "measured": {"spins": 75, hop: 77}, "set": {"slots": 4}}))
        result = tutti("run", "-n", "2", TUTTI, "tune", "--transport", "tcp", "--seconds", "1", "--output", path, **self.cache)
        if result.returncode != 0:  # as above
            self.assertRegex(result.stderr, "nothing was written")
            return
        self.assertIn(f"written to {path}\nGive it to all ranks of a job", result.stdout)
        fields = {field["name"]: field for field in self.table(TUTTI_TUNING=path)["fields"]}
        for name in (hop,) if shared else (hop, "socket_gb_s", "socket_reduce_gb_s"):
            self.assertEqual(fields[name]["origin"], "measured")
        self.assertNotEqual(fields[hop]["value"], 77)
        self.assertEqual((fields["spins"]["value"], fields["spins"]["origin"]), (75, "measured"))
        self.assertEqual((fields["slots"]["value"], fields["slots"]["origin"]), (4, "file"))
        self.assertEqual(fields["memory_hop_us"]["origin"], "default")

    def test_a_rank_of_a_job_is_not_told_how_many_there_are(self):
        result = tutti("run", "-n", "2", TUTTI, "tune", "-n", "3", **self.cache)
        self.assertEqual(result.returncode, 2)
        self.assertIn("tutti: tune: -n says nothing here, this process is a rank of a job of its own", result.stderr)

    def test_transports_that_join_no_processes_are_refused(self):
        result = tutti("tune", "--transport", "inproc", **self.cache)
        self.assertEqual(result.returncode, 2)
        self.assertRegex(result.stderr, "--transport: inproc not in {shm")

    def test_it_refuses_at_once_where_it_could_not_write(self):
        result = tutti("tune", "--output", "/proc/nowhere/table.json")
        self.assertEqual(result.returncode, 2)
        self.assertRegex(result.stderr, "cannot write to the folder /proc/nowhere")

    def test_info_says_where_each_value_comes_from(self):
        path = self.write('{"tutti_tuning": 1, "measured": {"spins": 75}, "set": {"slots": 4, "past_caches": "always"}}')
        found = self.table(TUTTI_TUNING=path, TUTTI_PAST_CACHES="never")
        fields = {field["name"]: field for field in found["fields"]}
        self.assertEqual((fields["spins"]["value"], fields["spins"]["origin"], fields["spins"]["unit"]), (75, "measured", "looks"))
        self.assertEqual((fields["slots"]["value"], fields["slots"]["origin"]), (4, "file"))
        self.assertEqual((fields["past_caches"]["value"], fields["past_caches"]["origin"]), ("never", "environment"))
        self.assertEqual(fields["yields"]["origin"], "default")
        self.assertEqual(found["id"], self.table(TUTTI_TUNING=path)["id"], "the environment is not in the id")
        text = tutti("info", "--tuning", TUTTI_TUNING=path).stdout
        self.assertIn(found["id"], text)
        self.assertRegex(text, r"spins +75 looks +measured +How often")

    def test_info_refuses_what_is_no_table(self):
        path = self.write('{"tutti_tuning": 1,\n"set": {"ring_bytes": 100000}}')
        result = tutti("info", "--tuning", TUTTI_TUNING=path)
        self.assertEqual(result.returncode, 1)
        self.assertEqual(result.stderr, f"tutti info: {path}, line 2: ring_bytes must be a power of two\n")


unittest.main()
