#include "engines/llm/cuda/device_sampler.h"

#include "engines/llm/cuda/launches.h"

namespace weir::llm::cuda {

using base::Status;
using device::Copy;
using device::Way;

Status DeviceSampler::run(const QueuedStep& queued, const SamplingPlan& plan, uint32_t before, ForwardPass* forward) {
  auto status = prepare(queued, plan, before);
  for (const auto& group : plan.groups) {
    if (!status.ok()) break;
    status = each([&] { return forward ? forward->compute_logits(queued, group.requests) : Status(); },
                  [&] { return logits_for_tests ? show_logits(group.requests) : Status(); },
                  [&] { return draw(queued, group); }, [&] { return take_logprobs(queued, group, plan.most); });
  }
  return status;
}

Status DeviceSampler::prepare(const QueuedStep& queued, const SamplingPlan& plan, uint32_t before) {
  if (plan.follows) {
    auto s = queue_.copy(Way::kOnDevice, Copy{memory_.sampled_before, memory_.sampled, before * sizeof(uint32_t)});
    if (!s.ok()) return s;
  }
  if (!plan.scores) return {};
  // Queued behind the embedding, which may still read the ids that are overwritten.
  return queue_.copy(Way::kOnDevice, Copy{memory_.sampled, queued.at.sampled_ids, plan.ids.size() * sizeof(uint32_t)});
}

Status DeviceSampler::draw_range(const QueuedStep& queued, Range range) {
  if (range.count == 0) return {};
  const auto& at = queued.at;
  return queue_.launch(queue_.kernels().draw,
                       Draw{memory_.logits, at.draws + range.first, memory_.sampled, nullptr, range.count,
                            shape_.vocabulary, at.from + range.first, at.to + range.first, memory_.adjusted});
}

Status DeviceSampler::draw(const QueuedStep& queued, const LogitsGroup& group) {
  auto status = draw_range(queued, group.draws);
  uint32_t next = group.first_adjusted;
  for (const auto& range : group.adjusts) {
    if (!status.ok()) break;
    status = each(
        [&] {
          return queue_.launch(
              queue_.kernels().adjust,
              Adjust{memory_.logits, queued.at.adjusts + range.first, queued.at.changes, memory_.adjusted, range.count,
                     shape_.vocabulary, memory_.sampled_before, queued.masks});
        },
        [&] {
          return draw_range(queued, {next, range.count});
        });
    next += range.count;
  }
  return status;
}

// Queues the log-probabilities of sampled tokens and of scored ones.
Status DeviceSampler::take_logprobs(const QueuedStep& queued, const LogitsGroup& group, size_t most) {
  const Range range = group.logprobs;
  if (range.count == 0) return {};
  const ResultLayout& results = queued.results;
  return queue_.launch(queue_.kernels().logprobs,
                       Logprobs{memory_.logits, queued.at.logprobs + range.first, memory_.sampled,
                                reinterpret_cast<float*>(queued.out + results.logprobs) + range.first,
                                reinterpret_cast<uint32_t*>(queued.out + results.best_ids) + range.first * most,
                                reinterpret_cast<float*>(queued.out + results.best) + range.first * most, range.count,
                                shape_.vocabulary, uint32_t(most)});
}

Status DeviceSampler::show_logits(Range requests) {
  const size_t count = size_t(requests.count) * shape_.vocabulary;
  if (auto s = queue_.fit(shown_, count * sizeof(float)); !s.ok()) return s;
  auto status = each(
      [&] {
        return queue_.copy(Way::kToHost, Copy{shown_.data(), memory_.logits, count * sizeof(float)});
      },
      [&] { return queue_.drain(); });
  const auto* from = reinterpret_cast<const float*>(shown_.data());
  if (status.ok()) logits_for_tests->insert(logits_for_tests->end(), from, from + count);
  return status;
}

}  // namespace weir::llm::cuda
