#!/usr/bin/python3
"""What psrt.py promises. PSRT names the command psrt, PSRT_LIBRARY the library,
PSRT_CUDA_LIBRARY a driver, whose GPU may be a fake."""

import array
import asyncio
import copy
import ctypes
import gc
import json
import os
import pickle
import select
import signal
import subprocess
import tempfile
import threading
import time
import unittest
import weakref

import numpy as np
import torch

import psrt

TABLES = """
tables:
  - {name: sum, dim: 2, rule: sum}
  - {name: last, dim: 1, rule: assign}
  - name: life
    dim: 3
    rule: sgd
    lr: 1
    lifecycle: {embedx_threshold: 2, show_scale: false, delete_after_unseen_days: 1, show_click_decay_rate: 1, embed: {rule: naive, learning_rate: 1}}
dense: {rule: sum, parts: [{name: a, size: 3}, {name: b, size: 5}]}
"""


class Server:
    """A psrt serve in a process of its own."""

    def __init__(self, folder, listen="127.0.0.1:0"):
        self.folder = folder
        self.token = os.path.join(folder, "token")
        path = os.path.join(folder, "tables.yaml")
        with open(path, "w") as f:
            f.write(TABLES)
        self.process = subprocess.Popen(
            [os.environ["PSRT"], "serve", "--listen", listen, "--token-file", self.token, "--tables", path, "--threads", "2"],
            stdout=subprocess.PIPE)
        self.address = json.loads(self.process.stdout.readline())["address"]

    def end(self, sig=signal.SIGTERM):
        self.process.send_signal(sig)
        self.process.wait(20)
        self.process.stdout.close()

    def stop(self):
        """It answers nothing until it is sent a SIGCONT."""
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED)

    def client(self, **settings):
        return psrt.Client(servers=[self.address], token_file=self.token, **settings)


class OnDevice:
    """Floats in a GPU's memory, as CuPy and others show theirs."""

    def __init__(self, shape):
        self.cuda = ctypes.CDLL(os.environ["PSRT_CUDA_LIBRARY"])
        self.cuda.cuMemcpyHtoDAsync_v2.argtypes = [ctypes.c_uint64, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
        self.cuda.cuMemcpyDtoHAsync_v2.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_size_t, ctypes.c_void_p]
        self.cuda.cuEventRecord.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
        self.cuda.cuEventSynchronize.argtypes = [ctypes.c_void_p]
        context, self.at, self.stream, self.event = (ctypes.c_void_p() for _ in range(4))
        self.host = np.zeros(shape, np.float32)
        for status in (self.cuda.cuInit(0), self.cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0),
                       self.cuda.cuCtxPushCurrent_v2(context), self.cuda.cuMemAlloc_v2(ctypes.byref(self.at), self.host.nbytes),
                       self.cuda.cuStreamCreate(ctypes.byref(self.stream), 1), self.cuda.cuEventCreate(ctypes.byref(self.event), 0)):
            assert status == 0, status
        self.__cuda_array_interface__ = {"shape": shape, "typestr": "<f4", "data": (self.at.value, False),
                                         "version": 3, "strides": None, "stream": self.stream.value}

    def set(self, values):
        """The values are there when the stream comes to it."""
        self.host[:] = values
        assert self.cuda.cuMemcpyHtoDAsync_v2(self.at.value, self.host.ctypes.data, self.host.nbytes, self.stream) == 0

    def get(self):
        assert self.cuda.cuMemcpyDtoHAsync_v2(self.host.ctypes.data, self.at.value, self.host.nbytes, self.stream) == 0
        assert self.cuda.cuEventRecord(self.event, self.stream) == 0 and self.cuda.cuEventSynchronize(self.event) == 0
        return self.host


class Test(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.server = Server(cls.folder.name)
        cls.next = 0

    @classmethod
    def tearDownClass(cls):
        cls.server.end()
        cls.folder.cleanup()

    def setUp(self):
        self.client = self.server.client()
        self.addCleanup(self.client.close)
        self.table = self.client.table("sum")

    def keys(self, n):
        """Keys that no other test has."""
        cls = type(self)
        cls.next += n
        return np.arange(cls.next - n, cls.next, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)

    def test_kinds_of_memory(self):
        keys = self.keys(3)
        ones = np.ones((3, 2), np.float32)
        forms = [
            (keys, ones),
            (keys.view(np.int64), ones.reshape(6)),
            (torch.from_numpy(keys.view(np.int64)), torch.ones(3, 2)),
            (array.array("Q", keys.tolist()), array.array("f", [1] * 6)),
            (keys.tolist(), memoryview(ones)),
            (bytes(keys.tobytes()), bytes(ones.tobytes())),
        ]
        for n, (k, g) in enumerate(forms[:5], 1):
            self.table.push(k, g)
            got = self.table.pull(k)
            self.assertIsInstance(got, np.ndarray)
            np.testing.assert_array_equal(got, np.full((3, 2), n, np.float32))
        for k, g in forms[5:]:
            with self.assertRaisesRegex(TypeError, "64-bit integers"):
                self.table.push(k, g)
        out = torch.zeros(3, 2)
        self.assertIs(self.table.pull(keys, out=out), out)
        self.assertEqual(out.tolist(), [[5, 5]] * 3)
        out = array.array("f", bytes(24))
        self.table.pull(keys, out=out)
        self.assertEqual(out.tolist(), [5] * 6)
        self.assertEqual(self.table.pull(np.empty(0, np.uint64)).shape, (0, 2))

    def test_memory_of_a_gpu(self):
        keys = self.keys(4)
        rows, grads = OnDevice((4, 2)), OnDevice((4, 2))
        grads.set(3)
        self.table.push(keys, grads)
        self.assertIs(self.table.pull(keys, out=rows), rows)
        np.testing.assert_array_equal(rows.get(), np.full((4, 2), 3))
        self.assertIs(self.table.pull_async(keys, out=rows).wait(), rows)
        _, ticket = self.table.pull_ticket(keys, out=rows)
        self.table.push_ticket(ticket, grads)
        self.table.push_async(keys, grads).wait()
        np.testing.assert_array_equal(self.table.pull(keys), np.full((4, 2), 9))
        vector, more = OnDevice((8,)), OnDevice((8,))
        before = self.client.pull_dense()
        more.set(range(8))
        self.client.push_dense(more)
        self.client.push_dense_async(more).wait()
        self.client.pull_dense(vector)
        np.testing.assert_array_equal(vector.get(), before + 2 * np.arange(8))
        self.client.pull_dense_async(vector).wait()
        life = self.client.table("life")
        grads3 = OnDevice((4, 3))
        grads3.set(1)
        life.push_counts(keys, grads3, shows=np.ones(4, np.float32))
        self.assertIn("staging", self.client.stats()["device"][0]["way"])
        with self.client.register(rows):
            self.assertFalse(self.client.is_direct(rows))
            self.assertEqual(self.client.stats()["device"][0]["direct"]["staging"], 1)
            self.table.pull(keys, out=rows)
        with self.assertRaisesRegex(ValueError, "in a GPU's memory"):
            self.client.free(rows)
        rows.__cuda_array_interface__["data"] = (rows.host.ctypes.data, False)
        with self.assertRaises(psrt.Error) as e:
            self.table.pull(keys, out=rows)
        self.assertEqual(e.exception.name, "EINVAL")

    def test_refused_memory(self):
        keys = self.keys(4)
        fine = np.zeros((4, 2), np.float32)
        for error, message, k, g in [
            (TypeError, "use .astype", keys.astype(np.int32), fine),
            (TypeError, "use .astype", keys, fine.astype(np.float64)),
            (TypeError, r"use .to\(torch.float32\)", keys, torch.zeros(4, 2, dtype=torch.float64)),
            (TypeError, r"use .to\(torch.int64\)", torch.zeros(4), fine),
            (ValueError, "ascontiguousarray", keys, np.zeros((2, 4), np.float32).T),
            (ValueError, "use .contiguous", keys, torch.zeros(2, 4).t()),
            (ValueError, "6 gradients, 4 keys of table sum need 8", keys, np.zeros(6, np.float32)),
        ]:
            with self.assertRaisesRegex(error, message):
                self.table.push(k, g)
        with self.assertRaisesRegex(ValueError, "read-only"):
            self.table.pull(keys, out=np.frombuffer(bytes(32), np.float32))
        with self.assertRaisesRegex(ValueError, "out has 3 floats"):
            self.table.pull(keys, out=np.zeros(3, np.float32))

    def test_scalars(self):
        """A NumPy scalar shows memory that is gone when it has been asked for."""
        keys, filler = self.keys(200), self.keys(1)
        table, one = self.client.table("last"), np.ones(1, np.float32)
        for k in keys:
            address, _, keep = psrt._buffer(k, True, False)
            again = [np.array(filler) for _ in range(50)]  # takes the memory that is free
            self.assertEqual(ctypes.c_uint64.from_address(address).value, int(k))
            del again, keep
            table.push(k, np.float32(1))
        np.testing.assert_array_equal(table.pull(keys), np.ones((200, 1)))
        self.assertEqual(table.pull(filler)[0, 0], 0)
        self.assertEqual(table.pull(keys[0]).tolist(), [[1]])
        table.push_async(keys[0], one + 1).wait()
        self.assertEqual(table.pull_async(keys[0]).wait().tolist(), [[2]])
        with self.assertRaisesRegex(TypeError, "scalar"):
            table.pull(keys[0], out=np.float32(0))

    def test_not_an_array(self):
        keys, fine = self.keys(4), np.zeros((4, 2), np.float32)
        sparse = torch.sparse_coo_tensor([[0, 1]], [1.0, 2.0], (4,))
        for message, k, g in [
            (r"gradients must be .*, not None: PyTorch's .grad is None", keys, None),
            ("keys must be .*, not None", None, fine),
            (r"not a sparse tensor \(torch.sparse_coo\).*coalesce", keys, sparse),
            ("64-bit integers, not torch.complex64", torch.zeros(4, dtype=torch.complex64), fine),
            ("64-bit integers, not torch.bool", torch.zeros(4, dtype=torch.bool), fine),
            ("32-bit floats, not torch.complex64", keys, torch.zeros(4, 2, dtype=torch.complex64)),
            ("32-bit floats, not torch.bfloat16", keys, torch.zeros(4, 2, dtype=torch.bfloat16)),
            ("64-bit integers, not <c8", np.zeros(4, np.complex64), fine),
            ("64-bit integers, not >u8", keys.astype(">u8"), fine),
            ("without a mask: use .filled", keys, np.ma.masked_array(fine, fine == 1)),
            ("not str: use numpy.asarray", "keys", fine),
            ("not int: use numpy.asarray", 5, fine),
        ]:
            with self.subTest(message), self.assertRaisesRegex(TypeError, message):
                self.table.push(k, g)
        with self.assertRaisesRegex(ValueError, "resolve_neg"):
            self.table.push(keys, torch._neg_view(torch.ones(4, 2)))
        with self.assertRaisesRegex(ValueError, "on meta"):
            self.table.push(keys, torch.zeros(4, 2, device="meta"))

    def test_no_copies(self):
        request = self.table.pull_async(self.keys(1))
        with self.client.register(np.zeros(8, np.float32)) as lent:
            for x in (self.client, self.table, request, lent):
                for f in (copy.copy, copy.deepcopy, pickle.dumps):
                    with self.assertRaisesRegex(TypeError, f"a {type(x).__name__} cannot be copied or pickled"):
                        f(x)
        request.wait()
        gc.collect()
        self.client.noop()  # nothing has closed it
        e = pickle.loads(pickle.dumps(psrt.Timeout(-6, "psrt: late")))
        self.assertEqual((type(e), e.name, str(e)), (psrt.Timeout, "ETIMEDOUT", "psrt: late [ETIMEDOUT]"))

    def test_arrays_live(self):
        """What the library may still read or write lives, whatever becomes of the request."""
        with tempfile.TemporaryDirectory() as folder:
            server = Server(folder)
            self.addCleanup(server.end)
            client = server.client()
            table, keys = client.table("sum"), self.keys(3)
            table.pull(keys)
            server.stop()
            try:
                out, kept, lent = np.zeros((3, 2), np.float32), np.zeros((3, 2), np.float32), np.zeros(8, np.float32)
                seen, seen_kept, seen_lent = map(weakref.ref, (out, kept, lent))
                table.pull_async(keys, out=out)  # forgotten
                request = table.pull_async(keys, out=kept)
                client.register(lent)
                del out, kept, lent

                async def cancelled():
                    task = asyncio.ensure_future(awaited())
                    await asyncio.sleep(0.05)
                    task.cancel()

                async def awaited():
                    await table.pull_async(keys, out=np.zeros((3, 2), np.float32))

                asyncio.run(cancelled())
                gc.collect()
                for x in (seen, seen_kept, seen_lent):
                    self.assertIsNotNone(x())
                self.assertEqual(len(psrt._left), 2)
                with self.assertRaises(psrt.Timeout):
                    request.wait(0.01)
            finally:
                server.process.send_signal(signal.SIGCONT)
            client.close()
            with self.assertRaises(psrt.Error):
                request.wait()
            del request
            gc.collect()
            self.assertEqual((len(psrt._left), seen()), (0, None))

    def ctrl_c(self, name, call):
        """Interrupts a call that waits, and returns how long it then takes to end."""
        sent = []

        def send():
            time.sleep(0.06)
            sent.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=send)
        with self.subTest(name), self.assertRaises(KeyboardInterrupt):
            thread.start()
            try:
                call()
            finally:
                took = time.monotonic() - sent[0] if sent else 0
                thread.join()
            self.fail("it did not wait")
        self.assertLess(took, 5, name)  # .2 s, but a busy machine; the calls' timeout is 30 s

    def test_ctrl_c(self):
        with tempfile.TemporaryDirectory() as folder:
            server = Server(folder)
            self.addCleanup(server.end)
            a, b = server.client(workers=2, worker=0), server.client(workers=2, worker=1)
            t, life, keys, ones = a.table("sum"), a.table("life"), self.keys(3), np.ones((3, 2), np.float32)
            t.push(keys, ones)
            _, ticket = t.pull_ticket(keys)
            plan, rows = t.plan(keys)[0], a.empty((3, 2))
            self.ctrl_c("barrier", a.barrier)
            met = threading.Thread(target=b.barrier)
            met.start()
            a.barrier()  # it counts once
            met.join()
            server.stop()
            try:
                request = t.pull_async(keys)
                for name, call in {
                    "pull": lambda: t.pull(keys), "pull_ticket": lambda: t.pull_ticket(keys), "push": lambda: t.push(keys, ones),
                    "push_ticket": lambda: t.push_ticket(ticket, ones), "push_counts": lambda: life.push_counts(keys, np.ones((3, 3), np.float32)),
                    "pull_dense": a.pull_dense, "push_dense": lambda: a.push_dense(np.ones(8, np.float32)), "wait": request.wait,
                    "table": lambda: a.table("last"), "stats": a.stats, "clock": a.clock, "save": lambda: a.save(os.path.join(folder, "model")),
                    "shrink": life.shrink, "end_day": life.end_day, "open": server.client, "lent": lambda: t.pull(plan, out=rows),
                }.items():
                    self.ctrl_c(name, call)
                b.noop()
                self.ctrl_c("close", b.close)
            finally:
                server.process.send_signal(signal.SIGCONT)
            self.assertTrue((request.wait() >= 1).all())
            self.assertIn(t.pull(keys)[0, 0], (1, 2, 3))  # pushes that were interrupted are applied once, or not
            t.push(keys, ones)
            a.close()
            deadline = time.monotonic() + 20
            while psrt._left and time.monotonic() < deadline:
                psrt._sweep()
                time.sleep(0.01)
            self.assertFalse(psrt._left)

    def test_repeated_keys_and_plan(self):
        a, b = self.keys(2)
        keys = np.array([a, b, a, a], np.uint64)
        unique, index = self.table.plan(keys)
        self.assertEqual(sorted(unique.tolist()), sorted([int(a), int(b)]))
        np.testing.assert_array_equal(unique[index], keys)
        self.table.push(keys, np.full((4, 2), 2, np.float32))
        np.testing.assert_array_equal(self.table.pull(np.array([a, b]))[:, 0], [6, 2])
        last = self.client.table("last")
        last.push(keys, np.array([1, 2, 3, 4], np.float32))
        np.testing.assert_array_equal(last.pull(np.array([a, b]))[:, 0], [4, 2])

    def test_tickets(self):
        keys = self.keys(5)
        values, ticket = self.table.pull_ticket(keys)
        self.assertEqual(values.shape, (5, 2))
        self.table.push_ticket(ticket, np.full((5, 2), 3, np.float32))
        np.testing.assert_array_equal(self.table.pull(keys), np.full((5, 2), 3))
        with self.assertRaises(psrt.Error) as e:
            self.table.push_ticket(ticket, np.zeros((5, 2), np.float32))
        self.assertEqual(e.exception.name, "ESTALE")

    def test_errors(self):
        with self.assertRaises(psrt.Error) as e:
            self.client.table("none")
        self.assertEqual((e.exception.name, e.exception.status), ("ENOTABLE", -7))
        self.assertIn("sum", str(e.exception))
        with self.server.client(tables=[{"name": "sum", "dim": 3, "optimizer": {"kind": "adam"}}]) as c:
            with self.assertRaises(psrt.Error) as e:
                c.table("sum")
            self.assertEqual(e.exception.name, "EMISMATCH")
            for part in ["dim 2", "dim 3", "sum", "adam"]:
                self.assertIn(part, str(e.exception))
        with self.assertRaises(psrt.Error) as e:
            psrt.Client("servers: [127.0.0.1:1]\nspeed: 3\n")
        self.assertEqual(e.exception.name, "ECONFIG")
        with self.assertRaises(psrt.ConnectionLost):
            psrt.Client(servers=["127.0.0.1:1"], token_file=self.server.token, connect_timeout="100ms")
        with self.assertRaises(TypeError):
            psrt.Client("servers: [x]", worker=1)
        with self.assertRaisesRegex(ValueError, "timeout"):
            self.table.pull(self.keys(1), timeout=0)
        for error, timeout in [(TypeError, "3s"), (TypeError, []), (ValueError, float("inf")), (ValueError, -1)]:
            with self.subTest(timeout), self.assertRaisesRegex(error, "psrt: a timeout of"):
                self.table.pull(self.keys(1), timeout=timeout)
        for error, bad in [(ValueError, -1), (ValueError, 1 << 64), (TypeError, "x"), (TypeError, 1.5)]:
            with self.subTest(bad), self.assertRaisesRegex(error, f"psrt: keys must be 64-bit integers of 0 to .*, not {bad!r}"):
                self.table.pull([np.int64(1), 2, bad])
        with self.assertRaisesRegex(TypeError, "servers is a list"):
            psrt.Client(servers="127.0.0.1:1")
        closed = self.server.client()
        table = closed.table("sum")
        closed.close()
        closed.close()
        with self.assertRaises(psrt.Error) as e:
            table.pull(self.keys(1))
        self.assertEqual(e.exception.name, "EHANDLE")

    def test_async(self):
        keys = self.keys(100)
        pushes = [self.table.push_async(keys, np.ones((100, 2), np.float32)) for _ in range(20)]
        for r in pushes:
            self.assertEqual(r.wait(), 0)
            self.assertTrue(r.done())
            self.assertEqual(r.wait(), 0)
        r = self.table.pull_async(keys)
        readable, _, _ = select.select([r.fileno], [], [], 20)
        self.assertEqual(len(readable), 1)
        while not r.done():  # the eventfd comes a moment before or after
            time.sleep(0.001)
        np.testing.assert_array_equal(r.result, np.full((100, 2), 20))
        with self.assertRaises(ValueError):
            r.fileno
        self.table.push_async(keys, np.ones((100, 2), np.float32))  # forgotten: waited for
        gc.collect()
        np.testing.assert_array_equal(self.table.pull(keys), np.full((100, 2), 21))

    def test_refused(self):
        keys = self.keys(100)
        grads = np.ones((100, 2), np.float32)
        grads[:30, 1], grads[30:40, 0] = np.nan, np.inf
        dense = np.full(8, np.nan, np.float32)
        self.assertEqual(self.table.push(keys, grads), 40)
        self.assertEqual(self.table.push(keys, np.ones((100, 2), np.float32)), 0)
        self.assertEqual(self.table.push_async(keys, grads).wait(), 40)
        _, ticket = self.table.pull_ticket(keys)
        self.assertEqual(self.table.push_ticket(ticket, grads), 40)
        self.assertGreaterEqual(self.client.push_dense(dense), 1)
        self.assertGreaterEqual(self.client.push_dense_async(dense).wait(), 1)
        for call in (lambda: self.table.push(keys, grads, on_refused="raise"),
                     lambda: self.table.push_async(keys, grads, on_refused="raise").wait(),
                     lambda: self.client.push_dense(dense, on_refused="raise")):
            with self.assertRaises(psrt.Error) as caught:
                call()
            self.assertEqual(caught.exception.name, "ENOTFINITE")
            self.assertIn("not finite", str(caught.exception))
        with self.assertRaises(ValueError):
            self.table.push(keys, grads, on_refused="ignore")
        np.testing.assert_array_equal(self.table.pull(keys), np.repeat([[1.0, 1.0], [6.0, 6.0]], [40, 60], axis=0))
        self.assertGreaterEqual(self.client.stats()["client"]["refused_rows"], 200)

    def test_await(self):
        keys = self.keys(10)

        async def trainer():
            for _ in range(30):
                await self.table.push_async(keys, np.ones((10, 2), np.float32))
                await self.table.pull_async(keys)

        async def main():
            await asyncio.gather(*[trainer() for _ in range(8)])
            return await self.table.pull_async(keys)

        np.testing.assert_array_equal(asyncio.run(main()), np.full((10, 2), 240))

    def test_threads(self):
        keys = self.keys(10)

        def work():
            for _ in range(50):
                self.table.push(keys, np.ones((10, 2), np.float32))

        threads = [threading.Thread(target=work) for _ in range(6)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        np.testing.assert_array_equal(self.table.pull(keys), np.full((10, 2), 300))

    def test_memory(self):
        keys, _ = self.table.plan(self.keys(1000))
        rows = self.client.empty((1000, 2))
        rows[:] = 4
        self.assertTrue(self.client.is_direct(rows))
        self.table.push(keys, rows)
        rows[:] = 0
        self.table.pull(keys, out=rows)
        np.testing.assert_array_equal(rows, np.full((1000, 2), 4))
        mine = np.full((1000, 2), 2, np.float32)
        with self.client.register(mine):
            self.table.push(keys, mine)
            self.table.pull(keys, out=mine)
        np.testing.assert_array_equal(mine, np.full((1000, 2), 6))
        self.assertFalse(self.client.is_direct(mine))
        self.client.free(rows)

    def test_dense(self):
        self.assertEqual(self.client.dense_size(), 8)
        self.assertEqual(self.client.dense_range("b"), slice(3, 8))
        before = self.client.pull_dense()
        self.client.push_dense(np.arange(8, dtype=np.float32))
        np.testing.assert_array_equal(self.client.pull_dense() - before, np.arange(8))
        out = np.zeros(8, np.float32)
        self.client.push_dense_async(np.ones(8, np.float32)).wait()
        self.assertIs(self.client.pull_dense_async(out).wait(), out)
        np.testing.assert_array_equal(out - before, np.arange(8) + 1)

    def test_together(self):
        self.assertEqual(self.client.step(), 0)
        self.assertEqual(self.client.clock(), 0)
        self.assertEqual(self.client.step(), 1)
        with self.server.client(workers=2) as a, self.server.client(workers=2) as b:
            t = threading.Thread(target=a.barrier)
            t.start()
            b.barrier()
            t.join()
        self.table.prefetch(self.keys(3))
        self.client.noop()
        self.assertIsInstance(self.client.stats(), dict)
        self.assertTrue(psrt.version())
        self.assertIn("sum", repr(self.table))

    def test_save_and_load(self):
        keys = self.keys(2)
        model = os.path.join(self.folder.name, "model")
        self.table.push(keys, np.full((2, 2), 5, np.float32))
        self.client.save(model)
        self.table.push(keys, np.full((2, 2), 5, np.float32))
        self.client.load(model)
        with self.assertRaisesRegex(ValueError, "zero byte"):
            self.client.save(model + "\0of today")
        with self.assertRaisesRegex(psrt.Error, "generation 3 of"):
            self.client.save(model + "@3")
        np.testing.assert_array_equal(self.table.pull(keys), np.full((2, 2), 5))

    def test_lifecycle(self):
        c = self.client
        t, plain = c.table("life"), c.table("sum")
        keys = np.arange(4, dtype=np.uint64)
        ones = np.ones((4, 3), np.float32)
        self.assertFalse(t.pull(keys).any())  # a pull makes nothing
        t.push_counts(keys, ones, shows=np.array([1, 2, 30, 1], np.float32), clicks=np.array([0, 2, 3, 1], np.float32), slots=[1, 2, 3, 3])
        t.push_counts(keys, ones, shows=np.ones(4, np.float32))
        got = t.pull(keys)
        # The first weight learns from the first push on, the vector from the push after the one that made it.
        self.assertTrue((got[:, 0] == -2).all(), got)
        self.assertEqual(((got[:, 1:] != 0).any(axis=1)).tolist(), [False, True, True, False], got)
        rows = lambda: {x["name"]: x for x in c.stats()["servers"][0]["tables"]}["life"]
        self.assertEqual((rows()["rows"], rows()["life"]["days"]), (4, 0))
        t.shrink()  # row 0 was shown twice: its score is 0.2, below 0.8
        self.assertEqual(t.pull(keys)[:, 0].tolist(), [0, -2, -2, -2])
        for _ in range(2):
            t.end_day()
            t.push(keys[1:2], ones[:1])  # one show
        t.shrink()  # two days unseen are more than one
        self.assertEqual(t.pull(keys)[:, 0].tolist(), [0, -4, 0, 0])
        where = os.path.join(self.folder.name, "life")
        c.save(where)
        t.push(keys, ones)
        c.load(where)
        self.assertEqual(t.pull(keys)[:, 0].tolist(), [0, -4, 0, 0])
        x = rows()["life"]
        self.assertEqual((x["days"], x["shrinks"]), (2, 2))
        for f in (plain.shrink, plain.end_day, lambda: plain.push_counts(keys, np.ones((4, 2), np.float32))):
            with self.assertRaises(psrt.Error) as e:
                f()
            self.assertIn("no lifecycle", str(e.exception))
        with self.assertRaises(ValueError):
            t.push_counts(keys, ones, clicks=np.ones(3, np.float32))
        with self.assertRaises(psrt.Error):
            t.push_counts(keys, ones, shows=np.array([1, -1, 1, 1], np.float32))

    def test_finish_steps(self):
        with self.server.client(workers=1) as client:  # the barrier is for this one alone
            table = client.table("sum")
            table.push([5], np.ones(2, np.float32))
            client.finish_steps()
            with self.assertRaises(psrt.Error) as e:
                table.push([5], np.ones(2, np.float32))
            self.assertEqual((e.exception.name, e.exception.push), ("ECLOCK", 0))
            self.assertIn("finish_steps", str(e.exception))
            table.pull([5])
            client.barrier()

    def test_read_only(self):
        keys = self.keys(2)
        self.table.pull(keys, flags=psrt.READ_ONLY | psrt.ANY_CLOCK)

    def test_killed_server(self):
        with tempfile.TemporaryDirectory() as folder:
            server = Server(folder)
            address = server.address
            with server.client(timeout="2s") as c:
                t = c.table("sum")
                t.push([1], np.ones(2, np.float32))
                server.end(signal.SIGKILL)
                begin = time.monotonic()
                with self.assertRaises((psrt.Timeout, psrt.ConnectionLost)) as failed:
                    t.push([1], np.ones(2, np.float32))
                self.assertLess(time.monotonic() - begin, 10)
                push = failed.exception.push
                self.assertIn([p.state for p in c.push_status(push)], ([psrt.PUSH_UNKNOWN], [psrt.PUSH_MISSING]))
                server = Server(folder, address)
                deadline = time.monotonic() + 60
                while True:
                    try:
                        t.push([2], np.ones(2, np.float32))
                        break
                    except (psrt.Timeout, psrt.ConnectionLost):
                        self.assertLess(time.monotonic(), deadline)
                self.assertGreaterEqual(t.pull([2])[0, 0], 1)
                for _ in range(2):  # the second time nothing is missing
                    t.push_missing(push, [1], np.ones(2, np.float32))
                self.assertEqual(t.pull([1])[0, 0], 1)
                self.assertEqual(t.push_states(push, [1]), bytes([psrt.PUSH_APPLIED]))
                self.assertEqual([(p.state, p.rows) for p in c.push_status(push)], [(psrt.PUSH_APPLIED, 1)])
            server.end()


if __name__ == "__main__":
    unittest.main()
