/** Tables as RFC 4180 text: CRLF after every line, quotes only where they are needed. */

export type Cell = string | number | null;

const needsQuotes = /[",\r\n]|^\s|\s$/;

/**
 * What a spreadsheet would take for a formula: a sign in front, ASCII or full-width, also behind
 * blanks that some programs trim; a leading tab or line break does the same in others (CWE-1236).
 */
const formula = /^'*(?:\s*[=+\-@\uFF1D\uFF0B\uFF0D\uFF20]|[\t\r\n])/u;

export function csvLine(cells: readonly Cell[]): string {
  return `${cells.map(formatCell).join(',')}\r\n`;
}

/** The names go out with the first rows: if the store is away, nothing has been sent yet. */
export async function* csvTable<Row>(
  names: readonly string[],
  pages: AsyncIterable<readonly Row[]>,
  cellsOf: (row: Row) => readonly Cell[],
): AsyncGenerator<string> {
  let head = csvLine(names);
  for await (const rows of pages) {
    yield head + rows.map((row) => csvLine(cellsOf(row))).join('');
    head = '';
  }
  if (head !== '') yield head;
}

function formatCell(cell: Cell): string {
  if (cell === null) return '';
  if (typeof cell === 'number') return String(cell);
  const text = escapeFormula(cell);
  return needsQuotes.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/**
 * An apostrophe in front makes a text of it. A text that already has apostrophes there gets one
 * more, so that taking one away always gives back the original.
 */
function escapeFormula(text: string): string {
  return formula.test(text) ? `'${text}` : text;
}
