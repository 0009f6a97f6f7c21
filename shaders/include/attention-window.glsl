// The patterns that consist of a window and of global positions.

// Whether |row - key| <= WINDOW, or any distance is allowed.
bool in_window(uint row, uint key) {
    return WINDOW == 0u || (key <= row + WINDOW && row <= key + WINDOW);
}

// Whether any of rows first .. last has one of `count` keys from `key` on in its window.
bool window_touches(uint first, uint last, uint key, uint count) {
    return WINDOW == 0u || (key <= last + WINDOW && first < key + count + WINDOW);
}
