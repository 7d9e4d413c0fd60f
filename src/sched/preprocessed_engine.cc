#include "sched/preprocessed_engine.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

namespace weir::sched {
namespace {

using base::Status;
using images::Pixels;
using images::Preprocessing;

class PreprocessedEngine final : public Engine {
 public:
  PreprocessedEngine(std::unique_ptr<Engine> engine, msg::ModelSpec spec, size_t input, const Preprocessing& how,
                     base::SlabSource& slabs)
      : engine_(std::move(engine)), spec_(std::move(spec)), input_(input), how_(how), slabs_(slabs) {}

  const msg::ModelSpec& spec() const override { return spec_; }
  Status step(Batch& batch) override {
    std::vector<Status> failures(batch.calls.size());
    if (Status status = decode(batch, failures); !status.ok()) return status;
    if (Status status = engine_->step(batch); !status.ok()) return status;
    if (std::all_of(failures.begin(), failures.end(), [](const Status& s) { return s.ok(); })) return {};
    batch.failures.resize(batch.calls.size());
    for (size_t i = 0; i < failures.size(); ++i)
      if (!failures[i].ok()) batch.failures[i] = std::move(failures[i]);
    return {};
  }
  bool keeps_states() const override { return engine_->keeps_states(); }
  Health health() const override { return engine_->health(); }
  std::string_view place() const override { return engine_->place(); }

 private:
  // The pictures of all calls, one after the other, as one tensor. Rows whose picture cannot be read are zero.
  Status decode(Batch& batch, std::vector<Status>& failures) const;
  void write(const Pixels& pixels, std::byte* to) const {
    if (dtype() == msg::DType::kUint8)
      std::memcpy(to, pixels.values.data(), pixels.values.size());
    else
      normalize(pixels, how_, reinterpret_cast<float*>(to));  // slabs are aligned for it, and rows are whole floats
  }
  msg::DType dtype() const { return engine_->spec().inputs[input_].dtype; }
  msg::Shape shape(size_t rows, const Pixels& pixels) const;

  const std::unique_ptr<Engine> engine_;
  const msg::ModelSpec spec_;
  const size_t input_;
  const Preprocessing how_;
  base::SlabSource& slabs_;
};

msg::Shape PreprocessedEngine::shape(size_t rows, const Pixels& pixels) const {
  const int64_t height = pixels.height, width = pixels.width, channels = how_.channels();
  const bool nchw = how_.layout == Preprocessing::Layout::kNchw;
  msg::Shape out;
  if (spec_.max_batch > 0 || engine_->spec().inputs[input_].shape.rank() == 4) out.push(int64_t(rows));
  for (int64_t d : {nchw ? channels : height, nchw ? height : width, nchw ? width : channels}) out.push(d);
  return out;
}

Status PreprocessedEngine::decode(Batch& batch, std::vector<Status>& failures) const {
  msg::Tensor& given = batch.inputs[input_];
  std::vector<std::string_view> pictures;
  msg::for_each_string(given.data.view(), [&](std::string_view picture) { pictures.push_back(picture); });
  base::Block block;
  Pixels size;
  size_t row = 0;
  std::vector<size_t> unreadable;
  for (size_t call = 0; call < batch.calls.size(); ++call)
    for (uint32_t i = 0; i < (spec_.max_batch > 0 ? batch.calls[call]->rows : 1) && row < pictures.size(); ++i, ++row) {
      auto pixels = read_pixels(pictures[row], how_);
      if (!pixels) {
        if (failures[call].ok()) failures[call] = pixels.error();
        unreadable.push_back(row);
        continue;
      }
      const size_t bytes = pixels->values.size() * msg::size_of(dtype());
      if (!block) {
        block = base::Block(slabs_.take(bytes * pictures.size()));
        if (!block) return base::try_again(base::Code::kResourceExhausted, "no memory for a picture; try again later");
        block.resize(bytes * pictures.size());
        size = {pixels->width, pixels->height, {}};
      }
      write(*pixels, block.data() + row * bytes);
    }
  if (!block) return base::invalid(failures.empty() || failures[0].ok() ? "there is no picture" : failures[0].text);
  const size_t bytes = block.size() / pictures.size();
  for (size_t at : unreadable) std::memset(block.data() + at * bytes, 0, bytes);
  given.shape = shape(pictures.size(), size);
  given.dtype = dtype();
  given.data = block.freeze();
  return {};
}

// Sizes that the preprocessing leaves open follow from the model's own.
Status settle(const msg::ModelSpec& spec, const msg::TensorSpec& input, Preprocessing& how) {
  const std::string who = "preprocess: input '" + input.name + "' ";
  if (input.dtype != msg::DType::kFp32 && input.dtype != msg::DType::kUint8)
    return base::invalid(who + "is " + std::string(msg::name(input.dtype)) + "; FP32 or UINT8 is expected");
  auto dims = input.shape.dims();
  if (spec.max_batch == 0 && dims.size() == 4 && (dims[0] == 1 || dims[0] == -1)) dims = dims.subspan(1);
  if (dims.size() != 3)
    return base::invalid(who + "has shape " + input.shape.text() + "; three dimensions of one picture are expected");
  const bool nchw = how.layout == Preprocessing::Layout::kNchw;
  const int64_t channels = dims[nchw ? 0 : 2], height = dims[nchw ? 1 : 0], width = dims[nchw ? 2 : 1];
  if (channels != -1 && channels != how.channels())
    return base::invalid(who + "has " + std::to_string(channels) + " channels in layout " + (nchw ? "NCHW" : "NHWC") +
                         ", and the preprocessing makes " + std::to_string(how.channels()));
  using Resize = Preprocessing::Resize;
  if (height > 0 && width > 0 && how.crop_width == 0) {
    if (how.resize == Resize::kNone)
      how.resize = Resize::kExact, how.resize_width = uint32_t(width), how.resize_height = uint32_t(height);
    else if (how.resize == Resize::kShortSide)
      how.crop_width = uint32_t(width), how.crop_height = uint32_t(height);
  }
  const bool fixed = how.crop_width > 0 || how.resize == Resize::kExact;
  if (!fixed && spec.max_batch > 0)
    return base::invalid(who +
                         "takes pictures of any size, and those of a batch have one size: give crop, or resize as "
                         "[height, width]");
  const int64_t made_height = how.crop_width > 0 ? how.crop_height : how.resize_height;
  const int64_t made_width = how.crop_width > 0 ? how.crop_width : how.resize_width;
  if (fixed && ((height != -1 && height != made_height) || (width != -1 && width != made_width)))
    return base::invalid(who + "takes " + std::to_string(height) + " x " + std::to_string(width) +
                         " pixels, and the preprocessing makes " + std::to_string(made_height) + " x " +
                         std::to_string(made_width));
  return {};
}

}  // namespace

base::Result<std::unique_ptr<Engine>> make_preprocessed(std::unique_ptr<Engine> engine, const std::string& input,
                                                        const images::Preprocessing& how, base::SlabSource& slabs) {
  msg::ModelSpec spec = engine->spec();
  if (spec.any_tensors || spec.ragged || engine->is_inline())
    return base::failure(base::Code::kUnimplemented, "preprocess is not served by engine '" + spec.engine + "'");
  auto at = std::find_if(spec.inputs.begin(), spec.inputs.end(), [&](const auto& t) { return t.name == input; });
  if (input.empty() && spec.inputs.size() == 1) at = spec.inputs.begin();
  if (at == spec.inputs.end())
    return base::invalid(input.empty() ? "preprocess: the model has several inputs: name one with 'input'"
                                       : "preprocess: the model has no input '" + input + "'");
  Preprocessing settled = how;
  if (auto s = settle(spec, *at, settled); !s.ok()) return s;
  at->dtype = msg::DType::kBytes, at->second_dtype = msg::DType::kInvalid;
  at->shape = {1};
  const auto place = size_t(at - spec.inputs.begin());
  return std::unique_ptr<Engine>(
      std::make_unique<PreprocessedEngine>(std::move(engine), std::move(spec), place, settled, slabs));
}

}  // namespace weir::sched
