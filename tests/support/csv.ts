/** Parses CSV strictly according to RFC 4180. Throws if the text doesn't conform. */
export function parseCsv(text: string): string[][] {
  const cell = /(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r\n)/y;
  const rows: string[][] = [];
  let row: string[] = [];
  while (cell.lastIndex < text.length) {
    const at = cell.lastIndex;
    const match = cell.exec(text);
    if (!match) throw new Error(`Invalid CSV at ${at}: ${JSON.stringify(text.slice(at, at + 40))}`);
    const [, quoted, plain = '', end] = match;
    row.push(quoted === undefined ? plain : quoted.replaceAll('""', '"'));
    if (end === ',') continue;
    rows.push(row);
    row = [];
  }
  if (row.length > 0) throw new Error('The last line has no line break.');
  return rows;
}

/** Returns the rows as objects with the header's names as keys. */
export function readTable(text: string): Record<string, string>[] {
  const [header = [], ...rows] = parseCsv(text);
  return rows.map((row) => {
    if (row.length !== header.length)
      throw new Error(`A row has ${row.length} cells, but the header has ${header.length}.`);
    return Object.fromEntries(header.map((name, index) => [name, row[index] ?? '']));
  });
}

/** Removes the apostrophe that stops spreadsheets from running a cell as a formula. */
export function removeFormulaGuard(cell: string): string {
  return /^'+(?:\s*[=+\-@＝＋－＠]|[\t\r\n])/u.test(cell) ? cell.slice(1) : cell;
}
