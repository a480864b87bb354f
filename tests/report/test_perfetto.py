"""A profile as a trace of Perfetto: slices nest, times and texts are those of the profile.

The trace is read by a few lines that share no code with the writer, and by Perfetto's own classes
where the package `perfetto` is installed.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from timelines import timeline
from vtpu.reading import wire
from vtpu.reading.xplane.space import EventMetadata, Events, Line, Plane, Space, StatColumn
from vtpu.report.profiles.perfetto import perfetto_trace
from vtpu.report.profiles.xspace import profile_space


@dataclass
class Slice:
    track: str
    process: str
    name: str
    start: int
    end: int = 0
    depth: int = 0
    notes: dict[str, object] = field(default_factory=dict[str, object])
    flows: list[object] = field(default_factory=list[object])


class Trace:
    """A trace taken apart packet by packet, as Perfetto does."""

    def __init__(self, data):
        self.slices = []
        self._texts = {1: {}, 2: {}, 3: {}, 29: {}}
        self._tracks, self._running, self._last = {}, {}, {}
        for number, packet in wire.read_fields(data):
            assert number == 1
            self._packet(wire.group(packet))
        assert not any(self._running.values()), "a slice that does not end"

    def _packet(self, packet):
        if 12 in packet:
            for use, texts in wire.group(packet[12][0]).items():
                for text in texts:
                    fields = wire.group(text)
                    self._texts[use][wire.last_int(fields, 1)] = wire.last_text(fields, 2)
        if 60 in packet:
            fields = wire.group(packet[60][0])
            process = wire.last_text(wire.group(wire.last_bytes(fields, 3)), 6)
            parent = self._tracks.get(wire.last_int(fields, 5), ("", ""))[1]
            track = wire.last_int(fields, 1)
            self._tracks[track] = (wire.last_text(fields, 2), process or parent)
        if 11 in packet:
            self._event(wire.last_int(packet, 8), wire.group(packet[11][0]))

    def _event(self, time, event):
        track = wire.last_int(event, 11)
        assert time >= self._last.get(track, 0), "packets of a track stand in the order of time"
        self._last[track] = time
        running = self._running.setdefault(track, [])
        if wire.last_int(event, 9) == 2:
            running.pop().end = time
            return
        notes = [wire.group(n) for n in event.get(4, ())]
        made = Slice(
            *self._tracks[track],
            name=self._texts[2][wire.last_int(event, 10)],
            start=time,
            depth=len(running),
            notes={self._texts[3][wire.last_int(n, 1)]: self._value(n) for n in notes},
            flows=event.get(47, []),
        )
        running.append(made)
        self.slices.append(made)

    def _value(self, note):
        if 17 in note:
            return self._texts[29][wire.last_int(note, 17)]
        return wire.last_int(note, 4) or wire.last_int(note, 3) or note.get(5, [0])[0]


def line(spans, name="line", **stats):
    start = np.array([s for s, _ in spans], np.int64)
    end = np.array([e for _, e in spans], np.int64)
    columns = tuple(StatColumn(n, np.arange(len(spans)), v) for n, v in stats.items())
    events = Events(np.ones(len(spans), np.int64), start * 1000, (end - start) * 1000, columns)
    return Line(id=1, name=name, events=events)


def space_of(*lines):
    return Space(
        planes=(Plane(id=3, name="core", lines=lines, metadata={1: EventMetadata(name="op")}),)
    )


spans = st.lists(
    st.tuples(st.integers(0, 100), st.integers(1, 40)).map(lambda s: (s[0], s[0] + s[1])),
    min_size=1,
    max_size=15,
)


@given(spans)
def test_every_event_is_a_slice_of_its_time(found):
    trace = Trace(perfetto_trace(space_of(line(found))))
    assert Counter((s.start, s.end) for s in trace.slices) == Counter(found)


@given(spans)
def test_slices_of_a_track_nest(found):
    trace = Trace(perfetto_trace(space_of(line(found))))
    for one in trace.slices:
        for other in trace.slices:
            if one.track == other.track and one.start < other.start < one.end:
                assert other.end <= one.end


def test_what_nests_stays_on_one_track_and_what_overlaps_gets_another():
    nested = Trace(perfetto_trace(space_of(line([(0, 10), (2, 5), (5, 10), (10, 12)]))))
    assert [(s.track, s.depth) for s in nested.slices] == [
        ("line", 0),
        ("line", 1),
        ("line", 1),
        ("line", 0),
    ]
    crossed = Trace(perfetto_trace(space_of(line([(0, 10), (5, 15)]))))
    assert [s.track for s in crossed.slices] == ["line", "line (2)"]


def test_what_takes_no_time_takes_a_nanosecond():
    trace = Trace(perfetto_trace(space_of(line([(5, 5)]))))
    assert [(s.start, s.end) for s in trace.slices] == [(5, 6)]


def test_stats_of_single_events_are_annotations_of_their_slices():
    texts = np.empty(2, object)
    texts[:] = ["a", "b"]
    found = line([(0, 1), (2, 3)], run=np.array([5, -6]), scope=texts)
    notes = [s.notes for s in Trace(perfetto_trace(space_of(found))).slices]
    assert notes == [{"run": 5, "scope": "a"}, {"run": -6, "scope": "b"}]


def test_a_launch_flows_to_what_it_launched():
    host = line([(0, 1)], "host", _p=np.array([9]))
    device = line([(3, 4)], "device", _c=np.array([9]))
    flows = [s.flows for s in Trace(perfetto_trace(space_of(host, device))).slices]
    assert flows == [[9], [9]]


def test_a_run_in_time_is_all_there():
    space = profile_space(timeline(steps=3, devices=2))
    trace = Trace(perfetto_trace(space))
    assert len(trace.slices) == sum(len(x.events) for p in space.planes for x in p.lines)
    assert {s.process for s in trace.slices} == {"/device:TPU:0", "/device:TPU:1", "/host:CPU"}
    operation = next(s for s in trace.slices if s.name.startswith("fusion"))
    assert operation.notes["hlo"].startswith(f"%{operation.name} = ")
    assert operation.notes["source"]
    assert operation.notes["flops"] > 0


def test_perfettos_own_classes_read_the_same():
    pb2 = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    data = perfetto_trace(profile_space(timeline(steps=2, devices=1)))
    trace = pb2.Trace()
    trace.ParseFromString(data)
    trace.DiscardUnknownFields()
    assert len(trace.SerializeToString()) == len(data)  # every field is known, and of its type
    events = [p.track_event for p in trace.packet if p.HasField("track_event")]
    begins = [e for e in events if e.type == pb2.TrackEvent.TYPE_SLICE_BEGIN]
    assert len(events) == 2 * len(begins) == 2 * len(Trace(data).slices)
    assert all(e.name_iid for e in begins)
