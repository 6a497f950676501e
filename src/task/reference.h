// A task's reference: from inputs to what is right, in double precision, in a process of its own.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "base/result.h"
#include "task/data.h"
#include "task/task.h"

namespace warpsmith::task {

class Reference {
 public:
  virtual ~Reference() = default;
  // Adds what is right to the inputs. Error: failed, naming the task, when the reference does not do its work.
  virtual Status complete(const Instance& instance, Dataset& dataset) = 0;
  // Whether several threads may ask at once.
  virtual bool concurrent() const { return false; }
};

// What a reference works on: doubles, tensor after tensor, an output with its magnitudes behind it where its tolerance
// is scaled by them.
struct ReferenceLayout {
  std::vector<std::int64_t> places;  // bytes from the start
  std::int64_t bytes = 0;
};
ReferenceLayout reference_layout(const Instance& instance);
// Names of these, in order, and of the constants.
DescriptorNames reference_names(const Task& task);
// Inputs widened, all else unwritten; and what a run made of it. Error: elements that are still unwritten.
void write_reference_inputs(const Instance& instance, const Dataset& dataset, const ReferenceLayout& layout,
                            std::byte* memory);
Status read_reference_outputs(const Instance& instance, const ReferenceLayout& layout, const std::byte* memory,
                              Dataset& dataset);

// Entry of every C++ reference: extern "C" void reference(const Arguments&).
inline constexpr const char* kReferenceEntry = "reference";

// `object`: the compiled reference. host: warpsmith-task-host; empty: beside the executable.
std::unique_ptr<Reference> make_cpp_reference(std::filesystem::path object, std::filesystem::path host = {});

// What is compiled: of C++ references; of CUDA references at one setting. Error: as of instantiate().
Candidate reference_candidate(const Task& task, const Machine& machine);
Result<Candidate> cuda_reference_candidate(const Instance& instance, const Machine& machine);

}  // namespace warpsmith::task
