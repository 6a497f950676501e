// Landlock: takes this process's right to open files, where the kernel knows how.
#pragma once

#include <string>
#include <vector>

// Afterwards only files under the directories `readable` can be opened, for reading; nothing can be created, removed or
// executed. Open descriptors keep working. Returns false where the kernel has no Landlock.
bool restrict_files(const std::vector<std::string>& readable);
