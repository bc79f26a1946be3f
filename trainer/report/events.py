"""The event file of --tensorboard: tutti-train runs this, with the folder as its argument and --json's object of each step on standard input.

The file is of TFRecords: length, its checksum, an Event message of protobuf, its checksum. The messages are written here field by field
(tensorflow/core/util/event.proto, framework/summary.proto).
"""
import json
import os
import struct
import sys
import time

CURVES = ("loss", "learning_rate", "samples_per_s", "comm_exposed_ms", "gradient_norm", "validation_loss")


def checksum(data):
    """CRC-32C, masked as in TFRecords."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def varint(value):
    data = b""
    while value > 127:
        data += bytes((value & 127 | 128,))
        value >>= 7
    return data + bytes((value,))


def text(number, value):
    """A field of protobuf that has a length."""
    return varint(number << 3 | 2) + varint(len(value)) + value


def single(value):
    """As float32; what is null, or too large for it, is no number."""
    try:
        return struct.pack("<f", value)
    except (OverflowError, struct.error):
        return struct.pack("<f", float("nan"))


def write(file, event):
    event = b"\x09" + struct.pack("<d", time.time()) + event  # wall_time
    length = struct.pack("<Q", len(event))
    file.write(length + struct.pack("<I", checksum(length)) + event + struct.pack("<I", checksum(event)))
    file.flush()


try:
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    with open(f"{folder}/events.out.tfevents.{int(time.time())}.{os.getpid()}.tutti", "xb") as file:
        write(file, text(3, b"brain.Event:2"))
        for line in sys.stdin:
            step = json.loads(line)
            values = b"".join(text(1, text(1, name.encode()) + b"\x15" + single(step[name])) for name in CURVES if name in step)
            write(file, b"\x10" + varint(step["step"]) + text(5, values))
except OSError as failed:
    sys.exit(f"tutti-train: --tensorboard: cannot write {folder}: {failed.strerror}")
