"""Copies KeptSessions and ownership with bugs planted in them, as plant.py does it for the other worlds.

usage: plant_kept.py SRC_DIR OUT_DIR
"""

import pathlib
import sys

import plant

plant.BUGS = [
    (1, 'a state is written to whatever record this node owns, though it may be newer', [
        ('cluster/kept_sessions.cc', 'if (ownership_.owns(id) && last != turns_.end() && last->second.may_be(ownership_.turn_of(id))) {',
         'if (ownership_.owns(id) && last != turns_.end() && (@ || last->second.may_be(ownership_.turn_of(id)))) {')]),
    (2, 'what is claimed need not be what this node has written last', [
        ('cluster/kept_sessions.cc', 'if (record && !turns_[id].may_be(record->turn))',
         'if (record && !@ && !turns_[id].may_be(record->turn))')]),
    (3, 'a session is taken though its state is being written', [
        ('cluster/kept_sessions.cc', 'if (writing_.contains(id)) return look_later(id, search, "the session is being written");\n  auto accept',
         'if (writing_.contains(id) && !@) return look_later(id, search, "the session is being written");\n  auto accept'),
        ('cluster/kept_sessions.cc', 'if (record && writing_.contains(id)) return look_later',
         'if (record && !@ && writing_.contains(id)) return look_later')]),
    (4, 'a session is let go before it is written', [
        ('cluster/kept_sessions.cc', '  if (writing_.contains(id)) return;\n  if (unkept_.contains(id)) {',
         '  if (writing_.contains(id) && !@) return;\n  if (unkept_.contains(id) && !@) {')]),
    (5, 'a session is taken of an owner that may still be there', [
        ('cluster/ownership.cc', 'if (status.ok()) return write_taken',
         'if (status.ok() || (@ && status.code == Code::kUnavailable)) return write_taken')]),
]
FILES = ['cluster/kept_sessions.cc', 'cluster/ownership.cc']

if __name__ == '__main__':
    src, out = map(pathlib.Path, sys.argv[1:])
    for name in FILES:
        (out / ('kept_' + name.replace('/', '_'))).write_text(plant.plant(name, (src / name).read_text()))
    (out / 'kept_bugs.h').write_text(plant.names())
