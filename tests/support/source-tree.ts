/**
 * Reads the repository for the house rules. TypeScript 7 has no parser API, so this is a small
 * scanner that relies on the formatter: a function ends at the indentation of its head.
 */
import { globSync, readFileSync, statSync } from 'node:fs';
import { posix } from 'node:path';

export interface Import {
  /** A path from the repository's root, or a package name. */
  readonly to: string;
  /** `reference`: loaded by URL, like a worker, so it can't be part of an import cycle. */
  readonly kind: 'value' | 'type' | 'reference';
  /** The imported names. Undefined means all. */
  readonly names: readonly string[] | undefined;
  readonly line: number;
}

export interface SourceFile {
  readonly path: string;
  readonly text: string;
  /** The text with comments replaced by spaces, which keeps offsets. */
  readonly uncommented: string;
  /** `uncommented` with the contents of strings, templates, and regexes also replaced by spaces. */
  readonly code: string;
}

export type Tree = ReadonlyMap<string, SourceFile>;

const comment = /\/\/[^\n]*|\/\*[\s\S]*?(?:\*\/|$)/;
const quoted = /'(?:\\[\s\S]|[^'\\\n])*'?|"(?:\\[\s\S]|[^"\\\n])*"?/;
// A slash after a value is a division. After an operator or one of these words, it starts a regex.
const noValue = /(?<=(?:[(,=:[!&|?{};+*%<>~^-]|\b(?:return|typeof|case|in|of))\s*)/;
const regex = /\/(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n[])+\/\w*/;
const rest = /[^'"`/{}]+|[\s\S]/;
const token = new RegExp(
  `${comment.source}|${quoted.source}|${noValue.source}${regex.source}|${rest.source}`,
  'y',
);
const templatePart = /[`}](?:\\[\s\S]|\$(?!\{)|[^\\`$])*(?:`|\$\{|$)/y;

function blank(text: string): Pick<SourceFile, 'uncommented' | 'code'> {
  let [uncommented, code, depth] = ['', '', 0];
  // The brace depths at which templates with an open `${` continue.
  const templates: number[] = [];
  while (code.length < text.length) {
    const char = text.charAt(code.length);
    const resumes = char === '}' && templates.at(-1) === depth;
    const pattern = char === '`' || resumes ? templatePart : token;
    pattern.lastIndex = code.length;
    const part = pattern.exec(text)?.[0] ?? char;
    const spaces = part.replace(/[^\n]/g, ' ');
    uncommented += /^\/[/*]/.test(part) ? spaces : part;
    if (pattern === templatePart) {
      if (resumes) templates.pop();
      const opens = part.endsWith('${');
      if (opens) templates.push(depth);
      const head = resumes ? ' ' : char;
      code += part.length === 1 ? head : head + spaces.slice(1, -1) + (opens ? ' ' : part.at(-1));
    } else if (/^(?:["']|\/.)/.test(part)) {
      code += /^\/[/*]/.test(part) ? spaces : char + spaces.slice(2) + part.slice(1).slice(-1);
    } else {
      depth += Number(char === '{') - Number(char === '}');
      code += part;
    }
  }
  return { uncommented, code };
}

export function lineAt(text: string, offset: number): number {
  return text.slice(0, offset).split('\n').length;
}

const statement = /\b(?:import|export)\s+(type\s)?(?:([\w$*\s{},]*?)\bfrom\s*)?(['"])( *)\3/g;
const mention = /\b(import|import\.meta\.resolve|new URL|new Worker)\(()\s*(['"`])( *)\3/g;

export function importsOf({ path, text, code }: SourceFile): Import[] {
  const found = (match: RegExpExecArray, kind: Import['kind']): Import => {
    const end = match.index + match[0].length - 1;
    const named = text.slice(end - (match[4] ?? '').length, end);
    const to = named.startsWith('.') ? posix.join(posix.dirname(path), named) : named;
    return { to, kind, names: namesIn(match[2] ?? ''), line: lineAt(text, match.index) };
  };
  const statements = [...code.matchAll(statement)];
  const mentions = [...code.matchAll(mention)];
  return [
    ...statements.map((match) => found(match, match[1] ? 'type' : 'value')),
    ...mentions.map((match) => found(match, match[1] === 'import' ? 'value' : 'reference')),
  ];
}

/** Returns the names in `{ a, type B, c as d }`. Any other clause may import everything. */
function namesIn(clause: string): readonly string[] | undefined {
  const list = /^\s*\{([^}]*)\}\s*$/.exec(clause)?.[1];
  return list?.split(',').map((name) => /^\s*(?:type\s+)?([\w$]*)/.exec(name)?.[1] ?? '');
}

/** Returns each function's lines from its head to its closing brace. */
export function functionsOf(code: string): { readonly line: number; readonly lines: string[] }[] {
  const lines = code.split('\n').map((line) => line.trimEnd());
  const indents = lines.map((line) => line.search(/\S|$/));
  return lines.flatMap((line, index) => {
    if (!/(?:\)|=>)(?:: .*)? ?\{$|^\s*> \{$/.test(line)) return [];
    const isBeside = (l: string, i: number) => l !== '' && indents[i] === indents[index];
    // A head of several lines ends with a line that starts with `)` or `>`.
    const isHead = (l: string, i: number) => i <= index && isBeside(l, i) && !/^\s*[)>]/.test(l);
    const start = lines.findLastIndex(isHead);
    const isBlock = /^\s*(?:\} )?(?:else |export )?(?:if|for|while|switch|catch|class)\b/;
    if (isBlock.test(lines[start] ?? '')) return [];
    // A line such as `} {` ends a return type, not the function.
    const isEnd = (l: string, i: number) =>
      i > index && isBeside(l, i) && /^\s*\}.*(?<!\{)$/.test(l);
    const end = lines.findIndex(isEnd);
    return [{ line: start + 1, lines: lines.slice(start, end + 1) }];
  });
}

const unfenced = (text: string) =>
  text.replace(/^ *(```|~~~)[\s\S]*?^ *\1/gm, (fence) => fence.replace(/[^\n]/g, ' '));

/** Returns a document's links to files in the repository. */
export function linksOf(text: string): { readonly target: string; readonly line: number }[] {
  const prose = unfenced(text).replace(/`[^`\n]*`/g, (span) => ' '.repeat(span.length));
  return [...prose.matchAll(/\]\(<?([^)\s>]+)[^)]*\)|^ *\[[^\]]+\]: *(\S+)/gm)]
    .map((m) => ({ target: decodeURI(m[1] ?? m[2] ?? ''), line: lineAt(text, m.index) }))
    .filter(({ target }) => !/^(?:[a-z][a-z+.-]*:|\/\/)/i.test(target));
}

/** Returns the anchors that GitHub creates for a document's headings. */
export function anchorsOf(text: string): Set<string> {
  const anchors = new Set<string>();
  for (const [, heading = ''] of unfenced(text).matchAll(/^#{1,6} +(.+?)[ #]*$/gm)) {
    const words = heading.replace(/\[([^\]]*)\]\([^)]*\)/g, '$1').toLowerCase();
    const slug = words.replace(/[^\p{L}\p{M}\p{N}_\- ]/gu, '').replaceAll(' ', '-');
    let anchor = slug;
    for (let copy = 1; anchors.has(anchor); copy += 1) anchor = `${slug}-${copy}`;
    anchors.add(anchor);
  }
  return anchors;
}

export function treeOf(files: Readonly<Record<string, string>>): Tree {
  return new Map(
    Object.entries(files).map(([path, text]) => {
      const views = /\.tsx?$/.test(path) ? blank(text) : { uncommented: text, code: text };
      return [path, { path, text, ...views }];
    }),
  );
}

/** Lists the files that git tracks or would add. Without git, skips only the ignored folders. */
function listFiles(root: string): string[] {
  if (Bun.which('git')) {
    const list = ['git', 'ls-files', '-z', '--cached', '--others', '--exclude-standard'];
    const { success, stdout } = Bun.spawnSync(list, { cwd: root, stderr: 'ignore' });
    const paths = stdout.toString().split('\0').filter(Boolean);
    if (success && paths.length > 0) return paths;
  }
  const exclude = ['.git/**', 'node_modules/**', 'data/**', 'dist/**', '.*.bun-build'];
  return globSync(['**/*', '.*', '.ci/*'], { cwd: root, exclude });
}

/** Reads all files. The content of binary files, which have a zero byte, is left empty. */
export function readTree(root: string): Tree {
  const paths = listFiles(root).filter((path) =>
    statSync(posix.join(root, path), { throwIfNoEntry: false })?.isFile(),
  );
  const texts = paths.map((path) => {
    const text = readFileSync(posix.join(root, path), 'utf8');
    return [path, text.includes('\0') ? '' : text] as const;
  });
  return treeOf(Object.fromEntries(texts));
}
