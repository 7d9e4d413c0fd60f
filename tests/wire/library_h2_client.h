// An HTTP/2 client whose connection is a session of libnghttp2: what wire's own client is compared with.
#pragma once

#include <memory>

#include "wire/client_codec.h"

namespace weir::test {

std::unique_ptr<wire::ClientCodec> make_library_h2_client();

}  // namespace weir::test
