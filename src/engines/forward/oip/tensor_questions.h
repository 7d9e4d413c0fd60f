// TensorQuestions: a model's readiness, then its metadata, then its configuration, of which its signature is made. How
// each is asked is for those who derive from it: gRPC or REST. On one shard's thread.
#pragma once

#include "engines/forward/kind.h"
#include "engines/forward/origin_conn.h"

namespace weir::forward {

class TensorQuestions : public Questions {
 public:
  void ask_signature(const msg::ModelSpec& wanted, base::Duration timeout, OnSignature then) final;

 protected:
  // Both outlive this.
  TensorQuestions(OriginConn& conn, const Options& options) : conn_(conn), options_(options) {}

  // Each ends in the function below that has its name, with what was read laid over spec_.
  virtual void ask_metadata() = 0;
  virtual void ask_config() = 0;
  // Errors name the origin.
  void heard_metadata(base::Status status);
  void heard_config(base::Status status);

  // The same with the origin's name in it, where it is an error.
  base::Status named(base::Status status) const;

  OriginConn& conn_;
  const Options& options_;
  msg::ModelSpec spec_;
  base::Duration timeout_{0};  // of one question

 private:
  void heard_ready(base::Result<bool> ready);
  void tell(base::Result<msg::ModelSpec> spec);

  OnSignature then_;
};

}  // namespace weir::forward
