#include "cluster/peer_answers.h"

#include <utility>

#include "cluster/kept_sessions.h"
#include "cluster/parted_bucket.h"

namespace weir::cluster {

using base::Code;
using base::failure;
using What = PeerRequest::What;

void PeerAnswers::answer(std::string_view text, std::function<void(std::string)> then) {
  auto request = read_request(text);
  if (!request) return then(write_answer(request.error()));
  if (request->what == What::kPromise) {
    auto promised = membership_.fencing().promise(request->key, request->number);
    if (!promised) return then(write_answer(promised.error()));
    Bucket::KeyValue out;
    out.revision = *promised;
    return then(write_answer(out));
  }
  if (request->what == What::kLeave) {
    if (!leave_) return then(write_answer(failure(Code::kUnimplemented, "this node has no such sessions")));
    if (!request->key.starts_with(kMovedPrefix))
      return then(write_answer(failure(Code::kNotFound, "there is no such session")));
    if (leaving_ >= kMostLeaving)
      return then(write_answer(failure(Code::kUnavailable, "too many sessions are asked for at once")));
    ++leaving_;
    return leave_(request->key, request->value, [this, then = std::move(then)](const base::Status& status) {
      --leaving_;
      then(write_answer(status.ok() ? PeerAnswer(Bucket::KeyValue()) : PeerAnswer(status)));
    });
  }
  const bool session = request->key.starts_with(Ownership::kPrefix) || request->key.starts_with(PartedBucket::kPrefix);
  if (relays_ == Relays::kNo || (!session && !request->key.starts_with(Membership::kPrefix)))
    return then(write_answer(failure(Code::kPermissionDenied, "this node does not write that for others")));
  if (membership_.away() || under_way_ >= kMostAtOnce)
    return then(write_answer(failure(Code::kUnavailable, "this node cannot reach NATS, or has too much to do")));
  ++under_way_;
  relay(*request, session ? sessions_ : nodes_, [this, then = std::move(then)](const PeerAnswer& answer) {
    --under_way_;
    then(write_answer(answer));
  });
}

void PeerAnswers::relay(const PeerRequest& request, Bucket& bucket, std::function<void(PeerAnswer)> then) {
  auto written = [then](base::Result<uint64_t> revision) {
    if (!revision) return then(revision.error());
    Bucket::KeyValue out;
    out.revision = *revision;
    then(out);
  };
  if (request.what == What::kWrite) return bucket.write(request.key, request.value, request.number, written);
  if (request.what == What::kErase) return bucket.erase(request.key, request.number, written);
  bucket.read(request.key, then);
}

}  // namespace weir::cluster
