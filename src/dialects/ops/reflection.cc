#include "dialects/ops/reflection.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>

#include "marshal/small_message.h"
#include "reflection.pb.h"
#include "reflection_v1alpha.pb.h"

namespace weir::ops {
namespace {

namespace pb = google::protobuf;
// v1alpha has the same fields under the same numbers: its messages are read and written as v1's.
namespace reflection_v1 = grpc::reflection::v1;
using base::Bytes;
using base::Code;

constexpr std::string_view kV1 = "grpc.reflection.v1", kV1alpha = "grpc.reflection.v1alpha";
constexpr std::string_view kName = "ServerReflection";

using Request = reflection_v1::ServerReflectionRequest;
using Response = reflection_v1::ServerReflectionResponse;

void set_error(Response& response, Code code, std::string text) {
  response.mutable_error_response()->set_error_code(int(code));
  response.mutable_error_response()->set_error_message(std::move(text));
}

// Files as they are sent. To make one takes a tenth of a millisecond, and a question is short: each is made once. Any
// thread.
class Files {
 public:
  // The file, then what it imports, each once.
  void add(const pb::FileDescriptor* file, std::set<const pb::FileDescriptor*>& seen,
           reflection_v1::FileDescriptorResponse& out) {
    if (!seen.insert(file).second) return;
    out.add_file_descriptor_proto(bytes_of(file));
    for (int i = 0; i < file->dependency_count(); ++i) add(file->dependency(i), seen, out);
  }

 private:
  const std::string& bytes_of(const pb::FileDescriptor* file) {
    std::lock_guard lock(mutex_);
    auto at = made_.find(file);
    if (at != made_.end()) return at->second;
    pb::FileDescriptorProto proto;
    file->CopyTo(&proto);
    return made_.emplace(file, proto.SerializeAsString()).first->second;
  }

  std::mutex mutex_;
  std::map<const pb::FileDescriptor*, std::string> made_;  // no entry goes or changes
};

void set_file(Files& files, Response& response, const pb::FileDescriptor* file, const std::string& asked) {
  if (!file) return set_error(response, Code::kNotFound, "not found: " + asked);
  std::set<const pb::FileDescriptor*> seen;
  files.add(file, seen, *response.mutable_file_descriptor_response());
}

void find_extension(Files& files, const pb::DescriptorPool& pool, const reflection_v1::ExtensionRequest& asked,
                    Response& response) {
  const auto* type = pool.FindMessageTypeByName(asked.containing_type());
  const auto* extension = type ? pool.FindExtensionByNumber(type, asked.extension_number()) : nullptr;
  set_file(files, response, extension ? extension->file() : nullptr,
           "extension " + std::to_string(asked.extension_number()) + " of " + asked.containing_type());
}

void list_extensions(const pb::DescriptorPool& pool, const std::string& type_name, Response& response) {
  const auto* type = pool.FindMessageTypeByName(type_name);
  if (!type) return set_error(response, Code::kNotFound, "not found: " + type_name);
  std::vector<const pb::FieldDescriptor*> extensions;
  pool.FindAllExtensions(type, &extensions);
  auto& out = *response.mutable_all_extension_numbers_response();
  out.set_base_type_name(type_name);
  for (const auto* e : extensions) out.add_extension_number(e->number());
}

Response answer(Files& files, const pb::DescriptorPool& pool, const std::vector<std::string>& services,
                const Request& request) {
  Response response;
  response.set_valid_host(request.host());
  *response.mutable_original_request() = request;
  switch (request.message_request_case()) {
    case Request::kFileByFilename:
      set_file(files, response, pool.FindFileByName(request.file_by_filename()), request.file_by_filename());
      break;
    case Request::kFileContainingSymbol:
      set_file(files, response, pool.FindFileContainingSymbol(request.file_containing_symbol()),
               request.file_containing_symbol());
      break;
    case Request::kFileContainingExtension:
      find_extension(files, pool, request.file_containing_extension(), response);
      break;
    case Request::kAllExtensionNumbersOfType:
      list_extensions(pool, request.all_extension_numbers_of_type(), response);
      break;
    case Request::kListServices:
      response.mutable_list_services_response();
      for (const auto& s : services) response.mutable_list_services_response()->add_service()->set_name(s);
      break;
    default: set_error(response, Code::kInvalidArgument, "the request asks for nothing"); break;
  }
  return response;
}

}  // namespace

class Reflection::Method final : public wire::RpcMethod {
 public:
  explicit Method(const std::vector<std::string>& services) : services_(services) {}
  void open(wire::Rpc& rpc) override { rpc.attach(std::make_unique<ReflectionListener>(*this)); }

 private:
  class ReflectionListener final : public wire::RpcListener {
   public:
    explicit ReflectionListener(Method& method) : method_(method) {}
    void on_message(wire::Rpc& rpc, Bytes message) override {
      Request request;
      if (base::Status s = marshal::parse_small(message, request); !s.ok()) return rpc.finish(s);
      const auto& pool = *pb::DescriptorPool::generated_pool();
      rpc.send(Bytes::adopt(answer(method_.files_, pool, method_.services_, request).SerializeAsString()));
    }
    void on_half_close(wire::Rpc& rpc) override { rpc.finish({}); }
    void on_close(wire::Rpc&) override {}

   private:
    Method& method_;
  };

  const std::vector<std::string>& services_;
  Files files_;
};

Reflection::Reflection(std::vector<std::string> services)
    : services_(std::move(services)), method_(std::make_unique<Method>(services_)) {
  // Naming a message of the file links it into the pool.
  (void)grpc::reflection::v1alpha::ServerReflectionRequest::descriptor();
  for (std::string_view package : {kV1, kV1alpha}) services_.push_back(std::string(package).append(".").append(kName));
  std::sort(services_.begin(), services_.end());
  services_.erase(std::unique(services_.begin(), services_.end()), services_.end());
}

Reflection::~Reflection() = default;

void Reflection::add_to(wire::RpcServer& server) {
  for (std::string_view version : {kV1, kV1alpha}) {
    std::string package(version);
    server.add({package + "." + std::string(kName), "ServerReflectionInfo", wire::RpcKind::kBidi, method_.get(),
                package + ".ServerReflectionRequest", package + ".ServerReflectionResponse", "reflection",
                wire::Permission::kRead});
  }
}

}  // namespace weir::ops
