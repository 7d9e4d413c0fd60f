// A library that is not the one that was wanted.
extern "C" int weir_other_library();
extern "C" int weir_other_library() { return 1; }
