/** Called with a line of text for each discrepancy. */
export type Report = (line: string) => void;

/** Called during a long check with the kind of row and the number checked so far. */
export type Progress = (kind: string, rows: number) => void;

/** Rows between two progress reports of a long check. */
const progressRows = 100_000;

/** Called with each page of rows. */
export type OnRows = (rows: number) => void;

/** Returns a counter that reports its progress at most once per 100,000 rows. */
export function createRowCounter(kind: string, onProgress: Progress): OnRows {
  let [checked, reported] = [0, 0];
  return (rows) => {
    checked += rows;
    if (checked - reported < progressRows) return;
    reported = checked;
    onProgress(kind, checked);
  };
}
