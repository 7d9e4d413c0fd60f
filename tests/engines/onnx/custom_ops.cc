// A library of custom operators that has none: ONNX Runtime asks it to register them.
extern "C" __attribute__((visibility("default"))) void* RegisterCustomOps(void* /*options*/, const void* /*api*/) {
  return nullptr;
}
