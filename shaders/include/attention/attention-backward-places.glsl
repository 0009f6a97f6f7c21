// Where the rows of a text are, which the gradients of attention read from scratch memory: PLACES words per row.
const uint PLACES = 6u;

struct Place {
    // The text's rows of its own, and those of the texts that they meet: keys of a query, queries of a key.
    uint begin;
    uint end;
    uint others_begin;
    uint others_end;
    // Of a query: the number of its text.
    uint text;
    // Rows of all texts.
    uint rows;
};
