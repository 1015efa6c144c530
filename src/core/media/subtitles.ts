/** A cue of an SRT or WebVTT file. */
interface Cue {
  readonly startMs: number;
  readonly endMs: number;
  /** The settings after a WebVTT cue's times, such as its position on the screen. */
  readonly settings: string;
  readonly text: string;
}

const timestampPattern = '((?:\\d+:)?\\d{1,2}:\\d{2}[.,]\\d{3})';
/** White space within a line. If it matched line breaks, each line would start another match. */
const gap = '[^\\S\\n]';
const timing = new RegExp(
  `^${gap}*${timestampPattern}${gap}+-->${gap}+${timestampPattern}([^\\n]*)$`,
  'm',
);

export function writeSubtitles(format: 'srt' | 'vtt', cues: readonly Cue[]): string {
  const decimalSeparator = format === 'srt' ? ',' : '.';
  const blocks = cues.map((cue, index) => {
    const number = format === 'srt' ? `${index + 1}\n` : '';
    const start = formatTimestamp(cue.startMs, decimalSeparator);
    const end = formatTimestamp(cue.endMs, decimalSeparator);
    return `${number}${start} --> ${end}${cue.settings}\n${cue.text}\n\n`;
  });
  return `${format === 'vtt' ? 'WEBVTT\n\n' : ''}${blocks.join('')}`;
}

/** Parses the cues of a subtitle file. Skips blocks without times, which are headers and notes. */
export function readCues(body: string): Cue[] {
  const blocks = body.replaceAll('\r\n', '\n').split(/\n{2,}/);
  return blocks.flatMap((block) => {
    const found = timing.exec(block);
    if (!found) return [];
    const [line, start = '', end = '', settings = ''] = found;
    return [
      {
        startMs: parseTimestamp(start),
        endMs: parseTimestamp(end),
        settings: settings.trimEnd(),
        text: block.slice(found.index + line.length).trim(),
      },
    ];
  });
}

/** Parses `00:01:02,345` or `01:02,345` to milliseconds. */
function parseTimestamp(text: string): number {
  const [ms = 0, seconds = 0, minutes = 0, hours = 0] = text.split(/[:.,]/).reverse().map(Number);
  return ((hours * 60 + minutes) * 60 + seconds) * 1000 + ms;
}

function formatTimestamp(ms: number, decimalSeparator: ',' | '.'): string {
  const two = (value: number) => String(Math.floor(value)).padStart(2, '0');
  const [hours, minutes, seconds] = [ms / 3_600_000, (ms / 60_000) % 60, (ms / 1000) % 60];
  const rest = String(ms % 1000).padStart(3, '0');
  return `${two(hours)}:${two(minutes)}:${two(seconds)}${decimalSeparator}${rest}`;
}
