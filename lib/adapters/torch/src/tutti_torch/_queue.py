"""Works of the process group in Python, and the two ways in which they end.

Collectives run one after another, in the order in which they were issued, each as a blocking call of tutti;
messages are requests, all of which are in flight at once. As csrc/work.h, which is the same compiled.
"""

import _signal
import bisect
import ctypes
import threading
import time

import torch
from torch._C._distributed_c10d import Work
from tutti import _abi

from ._ending import Serving

# How long the queue's thread looks for new calls by itself after one, and how often: waking it takes longer
# than a short call. A call that is younger than a look is left to the thread that issued it, which mostly waits
# for it at once.
_LINGER_S = 0.005
_LOOK_S = 0.0005

_SHORTEST_NAP_S = 0.00002
_LONGEST_NAP_S = 0.0005
_LOOKS_BEFORE_NAP = 100


class Failures:
    """Turns what a call of the library returned into an exception."""

    def __init__(self, library):
        self._library = library

    def check(self, status, what, comm=None):
        if status == _abi.TUTTI_OK:
            return
        text = b""
        if comm is not None:
            error = _abi.tutti_error()
            if self._library.tutti_comm_last_error(comm, ctypes.byref(error)) == _abi.TUTTI_OK and \
                    error.status == status:
                text = error.text
        text = (text or self._library.tutti_last_error() or b"").decode(errors="replace")
        name = self._library.tutti_status_name(status).decode()
        # " Timed out ", spaces and all, is what torch's own tests look for.
        raise RuntimeError(f"tutti: {'Timed out in ' if status == _abi.TUTTI_TIMEOUT else ''}{what}: {text} ({name})")


def _seconds(timeout):
    """Of a timedelta; None where there is no limit."""
    seconds = timeout.total_seconds() if timeout is not None else 0
    return seconds if seconds > 0 else None


def future_on(devices):
    """For a value on these GPUs."""
    return torch.futures.Future(devices=devices) if devices else torch.futures.Future()


class TuttiWork(Work):
    """One call. Keeps what it needs, tensors above all, until it is done."""

    def __init__(self, run, outputs, source):
        super().__init__()
        self._run = run
        self._outputs = outputs
        self._source = source
        self._done = False
        self._failure = None
        self._gate = None  # of the future
        self._future = None
        self._future_lock = threading.Lock()

    def _complete(self, failure):
        self._run = None
        with self._future_lock:
            self._failure = failure
            self._done = True
            gate = self._gate
        if gate is not None:
            gate.set_result(None)

    def _value(self, _gate):
        if self._failure is not None:
            raise self._failure
        return self._outputs

    def _end_of_wait(self):
        if self._failure is not None:
            raise self._failure
        return True

    def is_completed(self):
        return self._done

    def is_success(self):
        return self._done and self._failure is None

    def exception(self):
        return self._failure

    def source_rank(self):
        return self._source

    _source_rank = source_rank

    def result(self):
        if not self._done:
            raise RuntimeError("tutti: the work has not ended")
        return self._outputs

    def forget_outputs(self):
        """Of a work that is done, which goes on to say so."""
        self._outputs = []

    def synchronize(self):
        self.wait()

    def get_future(self):
        with self._future_lock:
            if self._future is None:
                # Not set_exception(): C++, where DDP waits, would take the exception for the result.
                self._gate = future_on(list({tensor.device for tensor in self._outputs if tensor.is_cuda}))
                self._future = self._gate.then(self._value)
                if self._done:
                    self._gate.set_result(None)
            return self._future


class _WithThread:
    """What has a thread that runs _serve() until it is stopped, and nothing is left to do. Not to be stopped where
    runs_here() says that this thread is in something that it runs, as in a callback."""

    def __init__(self, name):
        self._lock = threading.Lock()
        self._wake = threading.Condition(self._lock)  # of the thread
        self._stopping = False
        self._thread = threading.Thread(target=self._run_thread, name="tutti_torch " + name, daemon=True)

    def _run_thread(self):
        with Serving():
            self._serve()

    def stop(self):
        with self._lock:
            self._stopping = True
            self._wake.notify()
        self._thread.join()


class _Callbacks(threading.local):
    """Of which futures this thread is in callbacks, the innermost last."""

    def __init__(self):
        super().__init__()
        self.stack = []

    def of(self, queue):
        return next((one for one in reversed(self.stack) if one.queue is queue), None)


class _CallbacksOf:
    """Those of a future that this thread, which has the queue, ends."""

    def __init__(self, end):
        self.queue, self._place = end.queue, end.place
        self._last_place = 0

    def next_place(self):
        self._last_place += 1
        return (*self._place, self._last_place)


_callbacks = _Callbacks()


class _Uninterrupted:
    """Holds the first Ctrl-C back while the main thread runs calls: it could skip one on this rank alone, or lose one.
    (What runs in the library does not heed it anyway.) By `_signal`, whose functions take a fifteenth of `signal`'s time."""

    def __enter__(self):
        self._before = self._came = None
        if threading.get_ident() != threading.main_thread().ident:
            return
        before = _signal.getsignal(_signal.SIGINT)
        if callable(before):
            try:
                _signal.signal(_signal.SIGINT, self._hold)
                self._before = before
            except ValueError:  # Python's main thread is another one than the process's
                pass

    def _hold(self, *arguments):
        if self._came is not None:
            self._before(*arguments)
        self._came = arguments

    def __exit__(self, *_error):
        if self._before is None:
            return
        _signal.signal(_signal.SIGINT, self._before)
        came, self._came = self._came, None
        if came is not None:
            self._before(*came)


class _Entry:
    """What a queue does in its turn."""

    def __init__(self, queue, call):
        self.queue, self.call = queue, call
        self.place = ()
        self.issued = 0.0

    def __lt__(self, other):
        return self.place < other.place

    def run(self):
        self.call._execute()

    def ends(self, call):
        """Whether it is the end of one of this call's futures."""
        return False


class _End(_Entry):
    """The end of a future: runs its callbacks."""

    def __init__(self, queue, call, gate):
        super().__init__(queue, call)
        self._gate = gate

    def run(self):
        _callbacks.stack.append(_CallbacksOf(self))
        try:
            self._gate.set_result(None)
        except RuntimeError:  # the program has ended the future itself
            pass
        finally:
            _callbacks.stack.pop()

    def ends(self, call):
        return self.call is call


class Call(TuttiWork):
    def __init__(self, queue, run, outputs, source):
        super().__init__(run, outputs, source)
        self._queue = queue

    def wait(self, timeout=None):
        if not self._done:
            self._queue.wait_for(self, _seconds(timeout))
        return self._end_of_wait()

    def get_future(self):
        """Another one each time."""
        gate = torch.futures.Future()
        future = gate.then(self._value)
        if self._done or not self._queue.will_end(self, gate):
            gate.set_result(None)
        return future

    def _execute(self):
        failure = None
        try:
            self._run()
        except Exception as error:  # pylint: disable=broad-except
            failure = error
        except BaseException as error:  # of a handler of a signal
            self._complete(RuntimeError(f"tutti: the call was interrupted by {type(error).__name__}"))
            raise
        self._complete(failure)


class CallQueue(_WithThread):
    """The collectives of a group. Its thread runs them, so that they proceed while the program computes; but
    who waits for a call whose turn it is runs it itself, which spares two switches of threads.

    Calls run in the order in which the program issued them. Each future of a call has a place in that order, too, where
    the program asked for it; there its callbacks run, and what they issue, however early the call has ended. So all ranks
    run one order as long as a callback, and what is chained to it, is attached before the program issues, asks for or attaches
    anything else, and callbacks issue calls of this group only. (Where the future has ended already, torch runs the
    callback at once, in the program.) A callback may wait for works of before that place, and for what it issues itself:
    its thread, which has the queue, runs them."""

    def __init__(self):
        super().__init__("collectives")
        self._ended = threading.Condition(self._lock)  # of an entry
        self._queue = []  # entries, in order of place
        # In the order of the program, compared from the left: the n-th thing that the program issued or asked for is at
        # (n,), the m-th of the callbacks of a future at (n,) is at (n, m).
        self._last_place = 0
        self._last_call = 0.0
        self._runner = 0  # the thread that runs what is queued; 0: nobody does
        self._asleep = False  # the thread, until it is woken
        self._thread.start()

    def _insert(self, entry):
        callbacks = _callbacks.of(self)
        if callbacks is not None:
            entry.place = callbacks.next_place()
        else:
            self._last_place += 1
            entry.place = (self._last_place,)
        entry.issued = time.monotonic()
        bisect.insort(self._queue, entry)

    def push(self, call):
        entry = _Entry(self, call)
        with self._lock:
            self._insert(entry)
            if self._asleep:
                self._wake.notify()

    def will_end(self, call, gate):
        """Ends the future behind the gate in its turn. False: the call is done."""
        if self.in_callback():
            # Nobody else runs the queue, nor does a wait for the future, which is torch's.
            self.wait_for(call, None)
            return False
        entry = _End(self, call, gate)
        with self._lock:
            if call.is_completed():
                return False
            self._insert(entry)
            return True

    def drain(self, limit_s):
        with self._lock:
            return self._ended.wait_for(lambda: not self._queue and not self._runner, limit_s)

    def _run_queued(self, last):
        """With the lock, by the thread that has the queue. Up to `last` and the ends of its futures; None: all."""
        # The callbacks of others stay behind the callback that waits.
        nested = self.in_callback()
        while self._queue and (last is None or not last.is_completed() or (not nested and self._queue[0].ends(last))):
            entry = self._queue.pop(0)
            self._lock.release()
            try:
                entry.run()
                entry = None  # tensors are freed outside the lock
            finally:
                self._lock.acquire()
            self._ended.notify_all()

    def _take_and_run(self, last):
        """With the lock, and nobody running."""
        self._runner = threading.get_ident()
        try:
            with Serving():
                self._run_queued(last)
        finally:
            self._runner = 0
            self._last_call = time.monotonic()
            self._ended.notify_all()
            if self._queue and self._asleep:
                self._wake.notify()

    def runs_here(self):
        return threading.get_ident() in (self._runner, self._thread.ident)

    def in_callback(self):
        """Whether this thread is in one, of a future of a call."""
        return _callbacks.of(self) is not None

    def wait_for(self, call, limit_s):
        if self.in_callback():
            with self._lock:
                self._run_queued(call)  # whatever the limit: nobody else can
        while not call.is_completed():
            with self._lock:
                runs = limit_s is None and self._queue and not self._runner
                if limit_s is not None:  # the call may take longer than this wait may
                    if not self._ended.wait_for(call.is_completed, limit_s):
                        raise RuntimeError(f"tutti: Timed out after {limit_s * 1000:.0f} ms of waiting for a collective, which goes on")
                elif not runs and not call.is_completed():
                    self._ended.wait()
            if runs:
                with _Uninterrupted(), self._lock:
                    if self._queue and not self._runner:
                        self._take_and_run(call)

    def _serve(self):
        with self._lock:
            while True:
                if self._queue and not self._runner:
                    age = time.monotonic() - self._queue[0].issued
                    if age >= _LOOK_S or self._stopping:
                        self._take_and_run(None)
                    else:
                        self._wake.wait(_LOOK_S - age)
                elif self._stopping and not self._queue and not self._runner:
                    return
                elif self._stopping:
                    self._ended.wait()
                elif time.monotonic() - self._last_call < _LINGER_S:
                    self._wake.wait(_LOOK_S)
                else:
                    # Woken once, it looks by itself, also where whoever issued the call has run it: while it is
                    # asleep each call pays for waking it.
                    self._asleep = True
                    self._wake.wait()
                    self._asleep = False


class Message(TuttiWork):
    def __init__(self, messages, finish, outputs, source):
        super().__init__(finish, outputs, source)
        self._messages = messages
        self._request = ctypes.c_void_p()
        self._sender = ctypes.c_int(-1)  # of a receive from any rank, once it has ended
        self._deadline = 0.0

    def wait(self, timeout=None):
        limit_s = _seconds(timeout)
        begun = time.monotonic()
        looks, nap = 0, _SHORTEST_NAP_S
        while not self._done:
            if limit_s is not None and time.monotonic() - begun > limit_s:
                raise RuntimeError(f"tutti: Timed out after {limit_s * 1000:.0f} ms of waiting for a message, which goes on")
            if self._messages.advance():
                continue
            looks += 1
            if looks < _LOOKS_BEFORE_NAP:
                time.sleep(0)
            else:
                time.sleep(nap)
                nap = min(2 * nap, _LONGEST_NAP_S)
        return self._end_of_wait()


class Messages(_WithThread):
    """Sends and receives of a group, on a communicator of their own: so they neither wait for collectives nor
    hold them up."""

    def __init__(self, library, failures, comm, limit_ms):
        super().__init__("messages")
        self._library, self._failures, self._comm = library, failures, comm
        self.limit_ms = limit_ms
        self._in_flight = []
        self._copying = []  # messages that have come, and what tells whether they lie where they should
        self._timed_out = ""  # what ended all of them
        self._enders = []  # the threads that end messages
        self._thread.start()

    def begin(self, message, send, address, count, peer, tag):
        """`peer` None: receives from any rank, which the message then has as its source."""
        end = (self._comm, None, ctypes.byref(message._request))
        with self._lock:
            if peer is None:
                status = self._library.tutti_irecv_any(address, count, _abi.TUTTI_UINT8, tag, ctypes.byref(message._sender), *end)
            else:
                begin = self._library.tutti_isend if send else self._library.tutti_irecv
                status = begin(address, count, _abi.TUTTI_UINT8, peer, tag, *end)
            self._failures.check(status, "send" if send else "recv", self._comm)
            message._deadline = time.monotonic() + self.limit_ms / 1000
            self._in_flight.append(message)
            self._wake.notify()

    def idle(self):
        with self._lock:
            return not self._in_flight and not self._copying

    def runs_here(self):
        return threading.get_ident() in (*self._enders, self._thread.ident)

    def _test(self, message):
        over = ctypes.c_int()
        return self._library.tutti_test(ctypes.byref(message._request), ctypes.byref(over)), over.value

    def advance(self):
        """Whether something ended."""
        ended, left = [], []
        with self._lock:
            now = time.monotonic()
            for message in self._in_flight:
                status, over = self._test(message)
                # Buffers are the library's until the request has ended, which after an abort it soon does.
                if status == _abi.TUTTI_OK and not over and now > message._deadline and not self._timed_out:
                    self._timed_out = f"tutti: Timed out as a message had not ended after {self.limit_ms} ms"
                    self._library.tutti_comm_abort(self._comm, self._timed_out.encode())
                    status, over = self._test(message)
                if status == _abi.TUTTI_OK and not over:
                    left.append(message)
                    continue
                try:
                    if status != _abi.TUTTI_OK and self._timed_out:
                        raise RuntimeError(self._timed_out)
                    self._failures.check(status, "message", self._comm)
                    ended.append((message, None))
                except RuntimeError as error:
                    ended.append((message, error))
            self._in_flight = left
            copying, self._copying = self._copying, []
        if not ended and not copying:
            return False
        self._enders.append(threading.get_ident())
        try:
            with Serving():
                return self._end(ended, copying)
        finally:
            self._enders.remove(threading.get_ident())

    def _end(self, ended, copying):
        """Messages that have come, and their failures, and those that are copied. Whether one of these has ended."""
        for message, failure in ended:
            copied = None
            try:
                if message._sender.value >= 0:
                    message._source = message._sender.value
                if failure is None:
                    copied = message._run()
            except Exception as error:  # pylint: disable=broad-except
                failure = error
            if copied is None:
                message._complete(failure)
            else:
                copying.append((message, copied))
        left = []
        for message, copied in copying:
            try:
                over, failure = copied(), None
            except Exception as error:  # pylint: disable=broad-except
                over, failure = True, error
            if over:
                message._complete(failure)
            else:
                left.append((message, copied))
        if left:
            with self._lock:
                self._copying += left
        return bool(ended) or len(left) < len(copying)

    def _serve(self):
        looks, nap = 0, _SHORTEST_NAP_S
        while True:
            with self._lock:
                if not self._in_flight and not self._copying:
                    self._wake.wait_for(lambda: self._stopping or self._in_flight or self._copying)
                    looks, nap = 0, _SHORTEST_NAP_S
                if self._stopping and not self._in_flight and not self._copying:
                    return
            if self.advance():
                looks, nap = 0, _SHORTEST_NAP_S
                continue
            looks += 1
            if looks >= _LOOKS_BEFORE_NAP:
                nap = min(2 * nap, _LONGEST_NAP_S)
            time.sleep(nap)


class JoinedWork(TuttiWork):
    """Several works as one: it has ended when all have."""

    def __init__(self, works):
        super().__init__(None, [], -1)
        self._works = works

    def wait(self, timeout=None):
        for work in self._works:
            work.wait(timeout)
        return True

    def is_completed(self):
        return all(work.is_completed() for work in self._works)

    def is_success(self):
        return all(work.is_success() for work in self._works)

    def exception(self):
        return next((work.exception() for work in self._works if work.exception() is not None), None)

    def result(self):
        return [tensor for work in self._works for tensor in work.result()]

    def forget_outputs(self):
        self._works = [work for work in self._works if not work.is_success()]

    def get_future(self):
        return torch.futures.collect_all([work.get_future() for work in self._works])
