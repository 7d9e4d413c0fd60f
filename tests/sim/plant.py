"""Copies sources of bus, sched and generation with bugs planted in them, each behind `sim::planted == <its number>`.

usage: plant.py SRC_DIR OUT_DIR        writes OUT_DIR/<room>_<file> for each of FILES, and planted_bugs.h, which names them

The sources themselves know nothing of this. A bug whose place is not found exactly once is an error: whoever changes the
code there plants it anew.
"""

import pathlib
import sys

# Number, what it is, and its places: file, what stands there, what stands there instead, where @ is the condition.
BUGS = [
    (1, 'a release counted twice', [
        ('bus/bus.cc', 'calls.store(n - 1, std::memory_order_release);',
         'calls.store(n - (@ && n > 1 ? 2 : 1), std::memory_order_release);')]),
    (2, 'a cancel that is lost when others are cancelled', [
        ('bus/bus.cc', '  counted_stats(*slot.served).cancelled.fetch_add(1, std::memory_order_relaxed);\n',
         '  if (slot.served->stats.cancelled.fetch_add(1, std::memory_order_relaxed) % 4 == 3 && @) return;\n')]),
    (3, 'an event after the last one', [
        ('sched/runner.cc', 'Status status) { mail(call, failed(*call, std::move(status))); }\n',
         'Status status) {\n'
         '  if (@ && status.code == Code::kUnavailable) mail(call, {msg::Failed{status}});\n'
         '  mail(call, failed(*call, std::move(status)));\n'
         '}\n')]),
    (4, 'a stale generation: the deadline of a Call that has ended hits the next one in its slot', [
        ('bus/bus.cc', '  ++slot->serial;\n', '  slot->serial += @ ? 0 : 1;\n')]),
    (5, 'a deadline ignored where many Calls are under way', [
        ('bus/bus.cc', '  if (slot.deadline != base::kNever) arm(slot);\n',
         '  if (slot.deadline != base::kNever && !(@ && in_flight_ > 8)) arm(slot);\n')]),
    (6, 'a missed wake of a shard when much mail comes at once', [
        ('bus/mailbox.cc', '  wake_();\n  waking_', '  if (!(@ && queue_.size() > 2)) wake_();\n  waking_')]),
    (7, 'credit lost: nobody is told that a peer at zero has room again', [
        ('bus/bus.cc', 'if (slot.credit.fetch_add(events, std::memory_order_acq_rel) <= 0) poke(*slot.inbox);',
         'if (slot.credit.fetch_add(events, std::memory_order_acq_rel) <= (@ ? -1 : 0)) poke(*slot.inbox);')]),
    (8, 'positions off by one behind the fifteenth token', [
        ('generation/step_results.cc', 'emit_token(s, {request.id, position, false, std::move(details)});',
         'emit_token(s, {request.id, position + (@ && s.generated > 15), false, std::move(details)});')]),
    (9, 'a block leaked when a recompute ends', [
        ('generation/kv_memory.cc', 'for (; s.scratch.size() > keep; s.scratch.pop_back()) kv_.drop(s.scratch.back());',
         'for (; s.scratch.size() > keep; s.scratch.pop_back())\n'
         '    if (!(@ && s.scratch.size() > 2)) kv_.drop(s.scratch.back());')]),
    (10, 'an answer posted to the wrong home shard', [
        ('bus/mail_bursts.cc', 'if (at == bursts_.end()) at = bursts_.insert(bursts_.end(), {home, {}});',
         'if (at == bursts_.end())\n'
         '      at = @ && bursts_.size() > 1 ? bursts_.begin() : bursts_.insert(bursts_.end(), {home, {}});')]),
    (11, 'a cached block that is found after it was given to somebody else', [
        ('generation/kv_blocks.cc', '    uncache(id);\n    forget(id);\n', '    uncache(id);\n    if (!@) forget(id);\n')]),
    (12, 'a running sequence goes on though its client has left', [
        ('generation/scheduler.cc', '      auto status = leaving(*s, spec_, now);\n      if (status.ok()) continue;\n',
         '      auto status = leaving(*s, spec_, now);\n'
         '      if (status.ok() || (@ && s->generated > 8)) continue;\n')]),
    (13, 'rows of a neighbour: offsets drift by the rows before', [
        ('sched/staging.cc', '    part.bytes = tensor.data.size() / batch_.rows * rows;\n',
         '    part.bytes = tensor.data.size() / batch_.rows * (@ && rows > 2 && part.from > 0 ? rows - 1 : rows);\n')]),
    (14, 'a batch that fails takes its neighbours with it', [
        ('sched/runner.cc', '  if (calls.size() > 1 && together(calls)) return;\n',
         '  if (calls.size() > 1 && together(calls)) return;\n'
         '  if (@ && calls.size() > 3) {\n'
         '    for (auto* call : calls) refuse(call, failure(Code::kInternal, "the batch failed"));\n'
         '    return;\n'
         '  }\n')]),
    (15, 'a preempted sequence says again what it has said', [
        ('generation/sequence.cc', '  recomputes = {}, next_score = {};\n',
         '  recomputes = {}, next_score = {};\n  if (@) emitted = 0;\n')]),
    (16, 'a Call leaked when its client leaves before its answer', [
        ('bus/bus.cc', '  if (last) release(slot);\n', '  if (last && !(@ && !slot.sink && slot.serial % 4 == 3)) release(slot);\n')]),
    (17, 'a prefix found for another image', [
        ('generation/kv_blocks.cc', 'scratch_[2] = content.images.low, scratch_[3] = content.images.high;',
         'scratch_[2] = @ ? 0 : content.images.low, scratch_[3] = @ ? 0 : content.images.high;'),
        ('generation/kv_blocks.cc', 'block.images == content.images &&', '(@ || block.images == content.images) &&')]),
    (18, 'credit ignored: a peer that reads slowly is sent everything', [
        ('generation/step_results.cc', 's.call->credit.fetch_sub(1, std::memory_order_acq_rel);',
         's.call->credit.fetch_sub(@ ? 0 : 1, std::memory_order_acq_rel);')]),
    (19, 'a block with two holders is freed by the first of them', [
        ('generation/kv_blocks.cc', '  if (--block.holders > 0) return;\n',
         '  if (--block.holders > (@ && block.chain != 0 ? 1u : 0u)) return;\n')]),
    (20, 'mail left over from a long turn waits for the next wake', [
        ('bus/bus.cc', '  mailbox_.wake_again();\n', '  if (!@) mailbox_.wake_again();\n')]),
]
FILES = sorted({place[0] for _, _, places in BUGS for place in places})


def plant(source, text):
    for number, what, places in BUGS:
        for file, old, new in places:
            if file != source:
                continue
            if text.count(old) != 1:
                sys.exit(f'plant.py: bug {number} ({what}): its place is not in {file} once: {old.strip()}')
            here = f'(sim::planted == {number})'
            text = text.replace(old, new.replace('(@)', here).replace('@', here))
    end = text.index('namespace weir')
    return text[:end] + 'namespace weir::sim {\nextern int planted;\n}\n' + text[end:]


def names():
    rows = ''.join(f'    "{what}",\n' for _, what, _ in BUGS)
    return f'#pragma once\n\nnamespace weir::sim {{\ninline constexpr const char* kBugs[] = {{\n{rows}}};\n}}\n'


if __name__ == '__main__':
    src, out = map(pathlib.Path, sys.argv[1:])
    assert [number for number, _, _ in BUGS] == list(range(1, len(BUGS) + 1))
    for name in FILES:
        (out / name.replace('/', '_')).write_text(plant(name, (src / name).read_text()))
    (out / 'planted_bugs.h').write_text(names())
