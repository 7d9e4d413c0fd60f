// Keeps the registers that a function must keep on the present stack, and goes on with another one.
#pragma once

extern "C" void emulator_switch(void** save, void* to);
