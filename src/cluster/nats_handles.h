// All users of libnats in this room have the same: owners of its handles, the functions that make them, and how a
// connection is kept up. For nats_*.cc alone.
#pragma once

#include <nats/nats.h>

#include <memory>
#include <string>
#include <vector>

namespace weir::cluster {

struct DestroyHandle {
  void operator()(natsOptions* p) const { natsOptions_Destroy(p); }
  void operator()(natsConnection* p) const { natsConnection_Destroy(p); }
  void operator()(natsSubscription* p) const { natsSubscription_Destroy(p); }
  void operator()(natsMsg* p) const { natsMsg_Destroy(p); }
  void operator()(jsCtx* p) const { jsCtx_Destroy(p); }
  void operator()(jsStreamInfo* p) const { jsStreamInfo_Destroy(p); }
  void operator()(jsPubAck* p) const { jsPubAck_Destroy(p); }
  void operator()(kvStore* p) const { kvStore_Destroy(p); }
  void operator()(jsMsgMetaData* p) const { jsMsgMetaData_Destroy(p); }
  void operator()(kvStatus* p) const { kvStatus_Destroy(p); }
};
template <class T>
using Handle = std::unique_ptr<T, DestroyHandle>;

// Makes one by a function of the library; `status` says how that went. Whatever the library has left is kept, behind an
// error, too: a connection that is still to come.
template <class T, class Make>
Handle<T> made_or_begun(natsStatus& status, Make&& make) {
  T* out = nullptr;
  status = make(&out);
  return Handle<T>(out);
}

// The same, null behind an error.
template <class T, class Make>
Handle<T> made(natsStatus& status, Make&& make) {
  Handle<T> out = made_or_begun<T>(status, make);
  if (status != NATS_OK) out.reset();
  return out;
}

// "nats://a:4222,nats://b:4222"; a name for the server's own list; and that a connection that is lost is made again and
// again. A send that a server which hangs does not take would hold the connection's lock, which closing takes, too.
inline natsStatus set_servers(natsOptions* opts, std::string urls, const std::string& name) {
  std::vector<const char*> servers{urls.c_str()};
  for (size_t at = 0; (at = urls.find(',', at)) != urls.npos; ++at) {
    urls[at] = '\0';
    servers.push_back(urls.c_str() + at + 1);
  }
  natsStatus status = natsOptions_SetServers(opts, servers.data(), int(servers.size()));
  if (status == NATS_OK) status = natsOptions_SetName(opts, name.c_str());
  if (status == NATS_OK) status = natsOptions_SetMaxReconnect(opts, -1);
  if (status == NATS_OK) status = natsOptions_SetReconnectWait(opts, 250);
  if (status == NATS_OK) status = natsOptions_SetReconnectJitter(opts, 250, 250);
  if (status == NATS_OK) status = natsOptions_SetTimeout(opts, 2000);
  if (status == NATS_OK) status = natsOptions_SetWriteDeadline(opts, 2000);
  if (status == NATS_OK) status = natsOptions_SetPingInterval(opts, 2000);
  return status == NATS_OK ? natsOptions_SetMaxPingsOut(opts, 2) : status;
}

}  // namespace weir::cluster
