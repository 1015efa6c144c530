/** Writes tables as CSV (RFC 4180): CRLF line ends, quotes only where needed. */

export type Cell = string | number | null;

const needsQuotes = /[",\r\n]|^\s|\s$/;

/**
 * Matches text that a spreadsheet might run as a formula (CWE-1236): a leading sign, ASCII or
 * full-width, also after spaces, which some programs trim; or a leading tab or line break.
 */
const formula = /^'*(?:\s*[=+\-@\uFF1D\uFF0B\uFF0D\uFF20]|[\t\r\n])/u;

export function csvLine(cells: readonly Cell[]): string {
  return `${cells.map(formatCell).join(',')}\r\n`;
}

/** Sends the header with the first rows, so that nothing is sent if the first read fails. */
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
 * Prefixes a formula with an apostrophe. Text that already starts with apostrophes gets one more,
 * so that removing one always restores the original.
 */
function escapeFormula(text: string): string {
  return formula.test(text) ? `'${text}` : text;
}
