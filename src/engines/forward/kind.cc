#include "engines/forward/kind.h"

#include "base/overload.h"
#include "engines/forward/native/kind.h"
#include "engines/forward/oip/grpc_kind.h"
#include "engines/forward/oip/rest_kind.h"
#include "engines/forward/openai/kind.h"
#include "engines/forward/openai/rows_kind.h"

namespace weir::forward {

base::Status no_memory_for_answer() { return base::overloaded("there is no memory for the answer; try again later"); }

base::Result<std::shared_ptr<const Kind>> make_kind(const Options& options, const std::string& folder) {
  switch (options.kind) {
    case KindName::kWeir: return make_native(options, folder);
    case KindName::kOipGrpc: return make_oip_grpc();
    case KindName::kOipRest: return make_oip_rest(options);
    case KindName::kOpenai: return options.has_rows() ? make_openai_rows(options) : make_openai(options, folder);
  }
  return base::failure(base::Code::kInternal, "a kind that is none");
}

}  // namespace weir::forward
