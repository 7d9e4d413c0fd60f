// OriginConn: the connections of one shard to one origin. HTTP/2: one that takes calls, which share it, and those that
// the origin is draining. HTTP/1.1: as many as there are calls, kept for the next ones. Calls for which there is no
// room wait. On the shard's thread.
#pragma once

#include <cstdint>
#include <list>
#include <memory>

#include "engines/forward/origin.h"
#include "net/client_conn.h"
#include "net/shard.h"
#include "wire/client_codec.h"

namespace weir::forward {

// One request to an origin. Its on_failed() is called where it could not be sent, too.
class OriginCall : public wire::ClientAnswer {
 public:
  // It has left, so that the origin may have seen it.
  bool sent() const { return link_ != nullptr; }
  // On a connection that has carried others before, so that the origin may have closed it before this one came.
  bool reused() const { return reused_; }

 protected:
  ~OriginCall() = default;

 private:
  friend class OriginConn;
  net::ClientConn* link_ = nullptr;
  bool reused_ = false;
  std::unique_ptr<wire::ClientRequest> request_;  // while it waits
  std::list<OriginCall*>::iterator place_;        // of those that wait
};

class OriginConn final : private net::ClientConn::Owner {
 public:
  // All outlive this.
  OriginConn(net::Shard& shard, const Target& target, Origin& origin);
  ~OriginConn();  // no call is under way any more
  OriginConn(const OriginConn&) = delete;

  Origin& origin() { return origin_; }
  base::Env& env() { return shard_.env(); }

  // Sends the request, to which it adds scheme, authority and key, when there is a connection with room. From then on
  // either the call's last function is called, which calls leave() first, or it is cancelled. Errors: UNAVAILABLE while
  // the origin cannot be reached and it is too early to try again; then the call is not here.
  base::Status send(OriginCall& call, wire::ClientRequest&& request);
  // The head of an answer has come: takes the origin's report of its load from it.
  void note_head(const wire::Fields& fields);
  void consume(OriginCall& call, size_t n);
  // Nothing of the call is called any more.
  void cancel(OriginCall& call);
  // As cancel(), for a call whose answer did not come in time: its connection may be the reason, and gets no more
  // calls.
  void suspect(OriginCall& call);
  // The call has had its last word.
  void leave(OriginCall& call);
  // Lets go of the connections for good; what waits fails. No call is under way.
  void close(const base::Status& why);

 private:
  static constexpr base::Duration kFirstRetry = std::chrono::milliseconds(100), kLongestRetry = std::chrono::seconds(5);
  static constexpr size_t kMostConnections = 1024;  // of HTTP/1.1

  struct Link {
    std::unique_ptr<net::ClientConn> conn;
    uint32_t calls = 0;     // that are under way on it
    bool open = false;      // it is connected
    bool used = false;      // and has had a call
    bool draining = false;  // it takes no more calls, and goes with its last one
    uint32_t generation;    // of the origin's addresses
  };

  void on_open(net::ClientConn& conn) override;
  void on_room(net::ClientConn&) override { send_waiting(); }
  void on_closed(net::ClientConn& conn, const base::Status& why) override;
  void forget_others();
  void connect();
  void connect_for_waiting();
  void send_waiting();
  void fail_waiting(const base::Status& why);
  std::unique_ptr<wire::ClientRequest> take_waiting(OriginCall& call);
  void put(Link& link, OriginCall& call, const wire::ClientRequest& request);
  Link* with_room();
  Link* find(const net::ClientConn* conn);
  void drain(Link& link);
  void prune();

  net::Shard& shard_;
  const Target& target_;
  Origin& origin_;
  std::list<Link> links_;  // the last used first
  base::TimerId prune_ = base::TimerId::kNone;
  std::list<OriginCall*> waiting_;  // any number, each of which may leave
  uint32_t generation_ = 0;         // of the origin's addresses, that the rest here is about
  base::Status last_error_;
  base::Time retry_at_{};
  base::Duration retry_wait_{0};
};

}  // namespace weir::forward
