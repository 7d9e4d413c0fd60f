// The words of `preprocess` in a model.yaml. Private to model_yaml.cc.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>

#include "images/preprocess.h"

namespace weir::models {

inline constexpr uint32_t kMostSide = 4096;  // of a picture that preprocessing makes, in pixels

inline constexpr std::pair<std::string_view, images::Filter> kFilters[] = {{"nearest", images::Filter::kNearest},
                                                                           {"bilinear", images::Filter::kBilinear},
                                                                           {"bicubic", images::Filter::kBicubic},
                                                                           {"lanczos", images::Filter::kLanczos}};

using Colors = images::Preprocessing::Colors;
inline constexpr std::pair<std::string_view, Colors> kColors[] = {
    {"rgb", Colors::kRgb}, {"bgr", Colors::kBgr}, {"gray", Colors::kGray}};

using Layout = images::Preprocessing::Layout;
inline constexpr std::pair<std::string_view, Layout> kLayouts[] = {{"nchw", Layout::kNchw}, {"nhwc", Layout::kNhwc}};

}  // namespace weir::models
