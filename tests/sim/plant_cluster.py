"""Copies membership and ownership with bugs planted in them, as plant.py does it for the other worlds.

usage: plant_cluster.py SRC_DIR OUT_DIR
"""

import pathlib
import sys

import plant

plant.BUGS = [
    (1, 'a lease that counts from the answer to a beat, not from the beat', [
        ('cluster/membership.cc', 'std::max(lease_until_, sent + rules_.lease)',
         'std::max(lease_until_, (@ ? env_.now() : sent) + rules_.lease)')]),
    (2, 'a node that is silent for half the time is fenced', [
        ('cluster/fencing.cc', '  if (may_fence(seen, incarnation)) return write(id, incarnation, then);\n',
         '  if (may_fence(seen, incarnation) || (@ && env_.now() - seen.since >= rules_.gone / 2)) return write(id, incarnation, then);\n')]),
    (3, 'a session is taken of an owner that may still be there', [
        ('cluster/ownership.cc', 'if (status.ok()) return write_taken',
         'if (status.ok() || (@ && status.code == Code::kUnavailable)) return write_taken')]),
    (4, 'a node that was fenced goes on as it was', [
        ('cluster/membership.cc', 'node->incarnation == self_.incarnation && node->phase != Phase::kFenced &&',
         'node->incarnation == self_.incarnation && (@ || node->phase != Phase::kFenced) &&'),
        ('cluster/membership.cc', '(entry->revision == revision_ || node->beat > taken_beat_);',
         '(@ || entry->revision == revision_ || node->beat > taken_beat_);')]),
    (5, 'a node whose entry has expired goes on as it was', [
        ('cluster/membership.cc', '    if (!first) join_anew();\n    revision_ = entry ? entry->revision : 0;',
         '    if (!first && !@) join_anew();\n    revision_ = entry ? entry->revision : 0;')]),
    (6, 'an entry that has expired counts as long silent', [
        ('cluster/node_table.cc', 'found->second.missed_since = env_.now();',
         'found->second.missed_since = env_.now() - (@ ? rules_.stranger(rules_.alone) : base::Duration(0));')]),
    (7, 'the incarnation stays the same when a node joins anew', [
        ('cluster/membership.cc', 'void Membership::join_anew() {\n  lease_until_ = {};\n  outdo(self_.incarnation);',
         'void Membership::join_anew() {\n  lease_until_ = {};\n  if (!@) outdo(self_.incarnation);')]),
    (8, 'a turn is done though the write of it was refused', [
        ('cluster/ownership.cc', 'if (!revision) return look_again(id, incarnation, value, turn, then);',
         'if (!revision && @) return then({});\n'
         '                  if (!revision) return look_again(id, incarnation, value, turn, then);')]),
    (9, 'what was watched is believed, not read again', [
        ('cluster/fencing.cc', '  if (entry) table_.on_entry(*entry);\n', '  if (entry && !@) table_.on_entry(*entry);\n')]),
    (10, 'an entry of an earlier incarnation, which a late write has brought back, counts for a later one', [
        ('cluster/fencing.cc', 'const bool over = seen.node.incarnation > incarnation ||',
         'const bool over = (@ ? seen.node.incarnation != incarnation : seen.node.incarnation > incarnation) ||')]),
    (11, 'a session that is being released is had again by reading its record', [
        ('cluster/ownership.cc', 'if (released_.contains(id)) return write_taken', 'if (!@ && released_.contains(id)) return write_taken')]),
    (12, 'a node that is cut off from the bucket goes on', [
        ('cluster/membership.cc', 'void Membership::disconnected() {\n  connected_ = false;',
         'void Membership::disconnected() {\n  connected_ = false;\n  if (@) lease_until_ = env_.now() + 100 * rules_.gone;')]),
    (13, 'a node that reaches the bucket promises all the same', [
        ('cluster/fencing.cc', '  if (reached_()) return refused', '  if (reached_() && !@) return refused')]),
    (14, 'a node that was not named does not wait longer', [
        ('cluster/fencing.cc', '(asked ? rules_.gone', '(asked || @ ? rules_.gone')]),
    (15, 'who comes back to the bucket counts the silence before', [
        ('cluster/membership.cc', '  if (reached && !reached_) others_', '  if (reached && !reached_ && !@) others_'),
        ('cluster/membership.cc', '  others_.restart_silence();\n  env_.cancel(timer_);',
         '  if (!@) others_.restart_silence();\n  env_.cancel(timer_);')]),
    (16, 'a node that is alone goes on for ever', [
        ('cluster/promises.cc', '|| env_.now() >= *taken_ + rules_.alone)', '|| (!@ && env_.now() >= *taken_ + rules_.alone))'),
        ('cluster/promises.cc', 'std::min(asked_ + rules_.lease, *taken_ + rules_.alone)',
         '@ ? asked_ + rules_.lease : std::min(asked_ + rules_.lease, *taken_ + rules_.alone)')]),
    (17, 'a beat that may have been taken is forgotten', [
        ('cluster/promises.cc', '  may_ = may_ && last_may_;\n', '  may_ = may_ && last_may_;\n  if (@) return;\n')]),
    (18, 'one promise is enough', [
        ('cluster/promises.cc', '  if (--missing_ == 0) renew();', '  if (--missing_ == 0 || @) renew();')]),
    (19, 'a node promises though its own fence may yet come', [
        ('cluster/fencing.cc', 'if (late != late_.end() && may_come', 'if (!@ && late != late_.end() && may_come')]),
]
FILES = ['cluster/fencing.cc', 'cluster/membership.cc', 'cluster/node_table.cc', 'cluster/ownership.cc', 'cluster/promises.cc']

if __name__ == '__main__':
    src, out = map(pathlib.Path, sys.argv[1:])
    for name in FILES:
        (out / name.replace('/', '_')).write_text(plant.plant(name, (src / name).read_text()))
    (out / 'cluster_bugs.h').write_text(plant.names())
