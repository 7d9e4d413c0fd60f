// The codec of a cleartext connection to a port that takes TLS only: it says so in the protocol that the peer speaks,
// runs nothing, and ends.
//
//   HTTP/1   400 with a text, `connection: close`
//   HTTP/2   the same and GOAWAY; a gRPC call gets UNAUTHENTICATED with the text. A GOAWAY alone would not do: clients
//            take a call that was not looked at for one to be tried again, until its deadline.
#pragma once

#include <memory>

#include "wire/codec.h"

namespace weir::wire {

std::unique_ptr<Codec> make_tls_wanted(const CodecEnv& env, Wire& wire, const PeerInfo& peer);
std::unique_ptr<Codec> make_tls_wanted(CodecEnv&& env, Wire& wire, const PeerInfo& peer) = delete;

}  // namespace weir::wire
