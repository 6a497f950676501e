// oneDNN's matmul primitive behind the module's interface, for the library's versions 2 and 3.
#include "evaluate/cpu/onednn_module.h"

#include <cstdio>
#include <exception>
#include <memory>
#include <new>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>

// Found through oneDNN's own dependencies; a build on another threading runtime has none.
extern "C" void omp_set_num_threads(int threads) __attribute__((weak));

namespace warpsmith {

namespace {

struct Matmul {
  int threads = 1;
  dnnl::stream stream;
  dnnl::memory a, b, c;  // their data is bound anew for each run
  dnnl::matmul primitive;
};

dnnl::memory::data_type data_type(OneDnnType type) {
  switch (type) {
    case OneDnnType::f16:
      return dnnl::memory::data_type::f16;
    case OneDnnType::bf16:
      return dnnl::memory::data_type::bf16;
    default:
      return dnnl::memory::data_type::f32;
  }
}

dnnl::matmul::primitive_desc describe(const OneDnnMatmulSpec& spec, const dnnl::engine& engine) {
  using Tag = dnnl::memory::format_tag;
  const auto type = data_type(spec.type);
  const dnnl::memory::desc a({spec.m, spec.k}, type, Tag::ab);
  const dnnl::memory::desc b({spec.k, spec.n}, type, spec.transpose_b ? Tag::ba : Tag::ab);
  const dnnl::memory::desc c({spec.m, spec.n}, type, Tag::ab);
#if DNNL_VERSION_MAJOR >= 3
  return dnnl::matmul::primitive_desc(engine, a, b, c);
#else
  return dnnl::matmul::primitive_desc(dnnl::matmul::desc(a, b, c), engine);
#endif
}

const char* version() {
  static const std::string text = [] {
    const dnnl::version_t* loaded = dnnl::version();
    return "oneDNN " + std::to_string(loaded->major) + "." + std::to_string(loaded->minor) + "." +
           std::to_string(loaded->patch);
  }();
  return text.c_str();
}

// The primitive divides its work, and takes its scratch memory, when it is created: the thread count is set before.
void* create(const OneDnnMatmulSpec* spec, char* text, std::size_t text_bytes) {
  const auto say = [&](const char* words) { std::snprintf(text, text_bytes, "%s", words); };
  if (omp_set_num_threads == nullptr) {
    say("its thread count cannot be set, since it is not built on OpenMP");
    return nullptr;
  }
  try {
    omp_set_num_threads(spec->threads);
    const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    const auto description = describe(*spec, engine);
    const std::string implementation = description.impl_info_str();
    say(implementation.c_str());
    if (implementation.rfind("ref", 0) == 0) {  // plain loops, which nobody would use
      say(("unimplemented on this CPU but for its reference implementation, " + implementation).c_str());
      return nullptr;
    }
    auto matmul = std::make_unique<Matmul>();
    matmul->threads = spec->threads;
    matmul->stream = dnnl::stream(engine);
    matmul->a = dnnl::memory(description.src_desc(), engine, nullptr);
    matmul->b = dnnl::memory(description.weights_desc(), engine, nullptr);
    matmul->c = dnnl::memory(description.dst_desc(), engine, nullptr);
    matmul->primitive = dnnl::matmul(description);
    return matmul.release();
  } catch (const dnnl::error& error) {
    say(error.status == dnnl_unimplemented ? "unimplemented on this CPU" : error.what());
  } catch (const std::bad_alloc&) {
    say("not enough memory");
  }
  return nullptr;
}

bool run(void* handle, const void* a, const void* b, void* c) {
  auto* matmul = static_cast<Matmul*>(handle);
  try {
    omp_set_num_threads(matmul->threads);
    matmul->a.set_data_handle(const_cast<void*>(a));  // only read
    matmul->b.set_data_handle(const_cast<void*>(b));
    matmul->c.set_data_handle(c);
    matmul->primitive.execute(matmul->stream,
                              {{DNNL_ARG_SRC, matmul->a}, {DNNL_ARG_WEIGHTS, matmul->b}, {DNNL_ARG_DST, matmul->c}});
    matmul->stream.wait();
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

void destroy(void* matmul) { delete static_cast<Matmul*>(matmul); }

}  // namespace

}  // namespace warpsmith

extern "C" __attribute__((visibility("default"))) const warpsmith::OneDnnModule* warpsmith_onednn_module() {
  static const warpsmith::OneDnnModule module = {warpsmith::version, warpsmith::create, warpsmith::run,
                                                 warpsmith::destroy};
  return &module;
}
