#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A link that is slow and loses frames, where the kernel has no netem: two TAP interfaces, between
which this program carries frames with a delay.

usage: slow_link.py NAME OTHER MILLISECONDS PERCENT
Makes the interfaces, prints a line, and carries frames until it is ended.
"""
import fcntl
import heapq
import os
import random
import select
import struct
import sys
import time

TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 0x0002, 0x1000


def tap(name):
  fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
  fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI))
  return fd


def main():
  ends = [tap(sys.argv[1]), tap(sys.argv[2])]
  other = {ends[0]: ends[1], ends[1]: ends[0]}
  delay, loss = float(sys.argv[3]) / 1000, float(sys.argv[4]) / 100
  print("up", flush=True)
  waiting, number = [], 0
  while True:
    wait = max(0, waiting[0][0] - time.monotonic()) if waiting else None
    ready, _, _ = select.select(ends, [], [], wait)
    now = time.monotonic()
    for fd in ready:
      try:
        while True:
          frame = os.read(fd, 65536)
          if random.random() >= loss:
            number += 1
            heapq.heappush(waiting, (now + delay, number, other[fd], frame))
      except OSError:  # none is left, or the end isn't up
        pass
    while waiting and waiting[0][0] <= now:
      _, _, fd, frame = heapq.heappop(waiting)
      try:
        os.write(fd, frame)
      except OSError:
        pass


if __name__ == "__main__":
  main()
