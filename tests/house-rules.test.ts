/**
 * The house rules. Every rule brings samples that it must flag, so that a rule which can no longer
 * fire is noticed, and look-alikes that it must leave alone. Delete a rule that nobody can defend.
 */
import { describe, expect, test } from 'bun:test';
import { posix } from 'node:path';
import type { Import, SourceFile, Tree } from './support/source-tree.ts';
import {
  anchorsOf,
  functionsOf,
  importsOf,
  lineAt,
  linksOf,
  readTree,
  treeOf,
} from './support/source-tree.ts';

const steps = 'auth limits cache route upstream meter ledger record tools jobs operations';
const story = 'gateway.ts call.ts recall.ts reserve.ts settle.ts books.ts';

/** Room or file of src → what it may import: `values` in any way, `types` by `import type` only. */
const mayImport: Readonly<Record<string, { values: string; types?: string }>> = {
  core: { values: '' },
  config: { values: 'core' },
  // What ended is told as it is written down.
  telemetry: { values: 'core record' },
  dialects: { values: 'core', types: 'config' },
  auth: { values: 'core' },
  limits: { values: 'core' },
  cache: { values: 'core' },
  meter: { values: 'core' },
  record: { values: 'core' },
  // A settlement is a record and what it cost; the two rooms cannot be told apart there.
  ledger: { values: 'core record' },
  route: { values: 'core', types: 'config' },
  upstream: { values: 'core dialects', types: 'config route telemetry' },
  demo: { values: 'core', types: 'config' },
  tools: { values: 'core', types: 'config' },
  jobs: { values: 'core', types: 'config' },
  store: { values: 'core ledger record', types: 'auth limits cache jobs tools meter' },
  http: {
    values: 'core dialects gateway.ts operations auth record telemetry jobs',
    types: `${steps} config call.ts`,
  },
  cli: {
    values: 'core config store auth route upstream ledger record telemetry tools demo wire.ts',
  },
  operations: {
    values: 'core dialects meter route upstream tools',
    types: 'config call.ts',
  },
  // The story of a request, read from top to bottom; the steps come in as values of `Steps`.
  'gateway.ts': { values: 'core upstream call.ts', types: `${steps} dialects ${story}` },
  'call.ts': { values: 'core', types: `${steps} dialects` },
  'recall.ts': { values: 'core cache upstream call.ts', types: story },
  'reserve.ts': { values: 'core meter', types: `${steps} ${story}` },
  'settle.ts': { values: 'core meter ledger record', types: `${steps} dialects ${story}` },
  'books.ts': { values: 'core ledger telemetry', types: story },
  'wire.ts': { values: '*' },
  // Its parts; a room only because one file would be too long.
  wire: { values: '*' },
  'main.ts': { values: 'config cli' },
};

/** Package → the one room that may know it. */
const packageHomes: Readonly<Record<string, string>> = {
  hono: 'http',
  kysely: 'store',
  pg: 'store',
  'bun:sqlite': 'store',
};

/** Files by path; a bare text stands for a file of the core. */
type Sample = string | Readonly<Record<string, string>>;

interface Rule {
  /** The reason, then the fix. */
  readonly because: string;
  /** Answers `path:line: what` for each place that breaks the rule. */
  readonly find: (tree: Tree) => readonly string[];
  readonly bad: readonly Sample[];
  readonly good?: readonly Sample[];
}

const filesIn = (tree: Tree, within: RegExp) =>
  [...tree.values()].filter(({ path }) => within.test(path));
const productOf = (tree: Tree) => filesIn(tree, /^src\/.*(?<!\.test)\.tsx?$/);
const roomOf = (path: string) => path.replace(/^src\//, '').split('/')[0] ?? '';

function mayReach(from: string, to: string, kind: Import['kind']): boolean {
  const { values, types = '' } = mayImport[from] ?? { values: '' };
  const allowed = kind === 'type' ? `${values} ${types}` : values;
  return from === to || values === '*' || allowed.split(' ').includes(to);
}

function findWrongImports(tree: Tree): string[] {
  return productOf(tree).flatMap((file) => {
    const room = roomOf(file.path);
    if (!mayImport[room]) return [`${file.path}:1: ${room} is not in the table`];
    const wrong = importsOf(file).filter(({ to, kind }) => {
      const isOurs = to.startsWith('src/') || /^[\w.-]+\/.*\.tsx?$/.test(to);
      if (isOurs) return !mayReach(room, roomOf(to), kind);
      return (packageHomes[to.split('/')[0] ?? ''] ?? room) !== room;
    });
    return wrong.map((i) => `${file.path}:${i.line}: ${room} may not import ${i.to} (${i.kind})`);
  });
}

function findCycles(tree: Tree): string[] {
  const done = new Set<string>();
  const visit = (path: string, trail: readonly string[]): string[] => {
    const file = tree.get(path);
    if (!file || done.has(path)) return [];
    const way = [...trail, path];
    const values = importsOf(file).filter(({ kind }) => kind === 'value');
    const found = values.flatMap(({ to, line }) =>
      way.includes(to)
        ? [`${path}:${line}: ${[...way.slice(way.indexOf(to)), to].join(' → ')}`]
        : visit(to, way),
    );
    done.add(path);
    return found;
  };
  return productOf(tree).flatMap(({ path }) => visit(path, []));
}

function findOrphans(tree: Tree): string[] {
  const door = 'src/main.ts';
  if (!tree.has(door)) return [`${door}:1: missing, so nothing can start`];
  const reached = new Set([door]);
  for (const path of reached) {
    const file = tree.get(path);
    for (const { to } of file ? importsOf(file) : []) reached.add(to);
  }
  const isType = (path: string) => path.endsWith('.d.ts');
  const orphans = productOf(tree).filter(({ path }) => !reached.has(path) && !isType(path));
  return orphans.map(({ path }) => `${path}:1: not reachable from ${door}`);
}

function findUnusedExports(tree: Tree): string[] {
  const imports = filesIn(tree, /\.tsx?$/).flatMap(importsOf);
  const taken = Map.groupBy(imports, ({ to }) => to);
  const isTaken = (path: string, name: string) =>
    taken.get(path)?.some(({ names }) => names?.includes(name) ?? true) ?? false;
  const exported = /^export (?:(?:async )?function\*?|(?:abstract )?class|const|let) ([\w$]+)/gm;
  return productOf(tree).flatMap(({ path, code }) =>
    [...code.matchAll(exported)]
      .filter(([, name = '']) => !isTaken(path, name))
      .map((match) => `${path}:${lineAt(code, match.index)}: nobody imports ${match[1]}`),
  );
}

function findUncommitted(tree: Tree): string[] {
  return productOf(tree).flatMap((file) =>
    importsOf(file)
      .filter(({ to }) => /^src\/.*\.(?:tsx?|json)$/.test(to) && !tree.has(to))
      .map(({ to, line }) => `${file.path}:${line}: ${to} is missing or ignored by git`),
  );
}

function findLongParts({ path, text, code }: SourceFile): string[] {
  const isTest = /^tests\/|\.test\.tsx?$/.test(path);
  const lines = text.trimEnd().split('\n');
  const linesMax = isTest ? 600 : 400;
  // A suite is a list of tests; only the tests in it are functions to read.
  const isSuite = (body: string[]) => isTest && /\n\s*(?:test|describe)\b/.test(body.join('\n'));
  return [
    ...(lines.length > linesMax ? [`${path}:${linesMax}: ${lines.length} lines in the file`] : []),
    ...functionsOf(code)
      .filter((span) => span.lines.length > 70 && !isSuite(span.lines))
      .map((span) => `${path}:${span.line}: ${span.lines.length} lines in a function`),
    ...lines.flatMap((line, at) => {
      const columns = [...line].length;
      return columns > 100 && !path.endsWith('.data.ts')
        ? [`${path}:${at + 1}: ${columns} columns`]
        : [];
    }),
  ];
}

function findLongMedian(tree: Tree): string[] {
  const lengths = productOf(tree).map(({ text }) => text.trimEnd().split('\n').length);
  const median = lengths.sort((a, b) => a - b)[Math.floor(lengths.length / 2)] ?? 0;
  return median > 150 ? [`src:${median}: is the median length of a file`] : [];
}

const vague = /^(?:utils?|helpers?|common|misc|managers?|base|shared|types|services?)$/;
const vagueEnd = /-(?:utils?|helpers?|misc|managers?)$/;

function findVagueNames(tree: Tree): string[] {
  const isVague = (part: string) => {
    const stem = part.replace(/(?<=.)\..*/, '');
    return vague.test(stem) || vagueEnd.test(stem);
  };
  const paths = [...tree.keys()].filter((path) => path.split('/').some(isVague));
  return paths.map((path) => `${path}:1: could hold anything`);
}

function findDeadLinks(tree: Tree): string[] {
  const leads = (path: string, target: string) => {
    const [file = '', anchor = ''] = target.split('#');
    const from = file.startsWith('/') ? '.' : posix.dirname(path);
    const to = file === '' ? path : posix.join(from, file).replace(/\/$/, '');
    const page = tree.get(to);
    if (!page) return to === '.' || [...tree.keys()].some((other) => other.startsWith(`${to}/`));
    return anchor === '' || !to.endsWith('.md') || anchorsOf(page.text).has(anchor);
  };
  return filesIn(tree, /\.md$/).flatMap(({ path, text }) =>
    linksOf(text)
      .filter(({ target }) => !leads(path, target))
      .map(({ target, line }) => `${path}:${line}: ${target} does not exist`),
  );
}

const structure: Readonly<Record<string, Rule>> = {
  'rooms import only what the table allows': {
    because:
      'A room can be read and tested without the rooms that use it. ' +
      'Declare a port and pass the part in from wire.ts, or argue for a new row.',
    find: findWrongImports,
    bad: [
      "import { b } from '../store/b.ts';",
      "export * from '../ledger/b.ts';",
      "import {\n  type B,\n} from '../auth/b.ts';",
      "await import('../../tests/b.ts');",
      "import { Hono } from 'hono';",
      { 'src/auth/a.ts': "import type { B } from '../ledger/b.ts';" },
      { 'src/store/a.ts': "import { b } from '../http/b.ts';" },
      { 'src/ledger/a.ts': "new Worker(new URL('../store/b.ts', import.meta.url));" },
      { 'src/parlour/a.ts': '' },
    ],
    good: [
      "// import { b } from '../store/b.ts';\nconst c = `import '../store/b.ts';`;",
      { 'src/store/a.ts': "import type { B } from '../ledger/b.ts';\nimport 'kysely';" },
      { 'src/core/a.test.ts': "import { b } from '../store/b.ts';" },
    ],
  },
  'imports form no cycle': {
    because:
      'In a cycle the order of loading depends on who asked first. ' +
      'Move what both need into a third file, or make one side an `import type`.',
    find: findCycles,
    bad: [{ 'src/core/a.ts': "import './b.ts';", 'src/core/b.ts': "export * from './a.ts';" }],
    good: [{ 'src/a.ts': "import './b.ts';", 'src/b.ts': "import type { A } from './a.ts';" }],
  },
  'every source file is reachable from main.ts': {
    because: 'A file that nobody imports is dead or forgotten. Wire it in or delete it.',
    find: findOrphans,
    bad: [{ 'src/main.ts': '', 'src/core/a.ts': '' }, { 'src/core/a.ts': '' }],
    good: [
      { 'src/main.ts': "import type { A } from './a.ts';", 'src/a.ts': '', 'src/a.test.ts': '' },
      { 'src/main.ts': "await import('./a.ts');", 'src/a.ts': '' },
      { 'src/main.ts': "new Worker(new URL('./a.ts', import.meta.url));", 'src/a.ts': '' },
    ],
  },
  'an exported value is imported by another file': {
    because: 'What is exported looks as if others depended on it. Drop the word, or the value.',
    find: findUnusedExports,
    bad: [
      'export const a = 1;',
      { 'src/a.ts': 'export async function* a() {}', 'src/b.ts': "// import { a } from './a.ts';" },
      { 'src/a.ts': 'export class A {}', 'src/b.ts': "import { type B, a } from './a.ts';" },
      { 'src/a.ts': 'export function a() {}', 'src/b.ts': "import { a } from './c/a.ts';" },
    ],
    good: [
      'const a = 1;\nexport interface B {}\nexport type C = B;',
      {
        'src/a.ts': 'export const a = 1;',
        'tests/b.ts': "import {\n  type B,\n  a as c,\n} from '../src/a.ts';",
      },
      { 'src/a.ts': 'export const a = 1;', 'src/a.test.ts': "import * as b from './a.ts';" },
      {
        'src/a.ts': 'export const a = 1;',
        'src/b.test.ts': "const { a } = await import('./a.ts');",
      },
      { 'src/a.ts': 'export const a = 1;', 'src/b.test.ts': "import type { a } from './a.ts';" },
    ],
  },
  'imported files are committed': {
    because: 'A fresh clone has no other files. Name it so that .gitignore lets it in.',
    find: findUncommitted,
    bad: ["import a from './data/a.json';"],
    good: [{ 'src/core/a.ts': "import './a.ts';\nimport 'yaml';" }],
  },
  'files have at most 400 lines (tests 600), functions 70, lines 100 columns': {
    because:
      'Longer things hide a second thing. Split by what a reader would look for, ' +
      'move the leaves of a function out, keep long data in a *.data.ts file.',
    find: (tree) =>
      filesIn(tree, /^(?:src|tests|bench|examples|dashboard)\/.*\.tsx?$/).flatMap(findLongParts),
    bad: [
      'a;\n'.repeat(401),
      { 'tests/a.test.ts': 'a;\n'.repeat(601) },
      `function f(\n  a: A,\n): Map<A, B> {\n${'  a;\n'.repeat(67)}}`,
      `class C {\n  m(): { a: A } {\n${'    a;\n'.repeat(69)}  }\n}`,
      { 'tests/a.test.ts': `test('a', async () => {\n${'  a;\n'.repeat(69)}});` },
      `// ${'a'.repeat(98)}`,
    ],
    good: [
      'a;\n'.repeat(400),
      { 'tests/a.test.ts': 'a;\n'.repeat(600) },
      `function f() {\n${'  a;\n'.repeat(68)}}`,
      `const table = {\n${'  a,\n'.repeat(90)}};`,
      { 'tests/a.test.ts': `describe('a', () => {\n${"  test('a', b);\n".repeat(90)}});` },
      `// ${'é'.repeat(97)}`,
      { 'src/core/a.data.ts': `'${'a'.repeat(200)}'` },
    ],
  },
  'the median source file has at most 150 lines': {
    because: 'It is what a reader usually meets. Split the files that hold two things.',
    find: findLongMedian,
    bad: ['a;\n'.repeat(151)],
    good: [{ 'src/a.ts': 'a;\n'.repeat(151), 'src/b.ts': '', 'src/c.ts': '' }],
  },
  'names say what is inside': {
    because: 'Everything fits into a drawer called utils. Name the file after its content.',
    find: findVagueNames,
    bad: [{ 'src/utils/a.ts': '' }, { 'tests/types.test.ts': '' }, { 'src/key-manager.ts': '' }],
    good: [{ 'src/core/basement.ts': '' }, { 'src/http/content-types.ts': '' }],
  },
  'links in documents lead somewhere': {
    because: 'A dead link costs the reader the answer. Point it at what exists.',
    find: findDeadLinks,
    bad: [
      { 'README.md': '[a](docs/a.md)' },
      { 'README.md': '# One\n[a](#two)' },
      { 'docs/a.md': '[a]: ../b.md#one', 'b.md': '```\n# One\n```' },
    ],
    good: [
      { 'docs/a.md': '[a](../b.md#the-one--only-1 "A")', 'b.md': '# The `one` & only\n'.repeat(2) },
      { 'docs/a.md': '`[a](b.md)` [a](https://a.example/b.md) [a](../docs/) [a](mailto:a@b.c)' },
    ],
  },
};

interface BannedText extends Omit<Rule, 'find'> {
  readonly pattern: RegExp;
  /** Where it is looked for: `code` lacks comments and strings, `text` has both. */
  readonly view?: 'code' | 'uncommented' | 'text';
  readonly within?: RegExp;
  readonly home?: RegExp;
}

const providers =
  'openai|anthropic|google|gemini|cohere|siliconflow|groq|deepseek|mistral|xai|together';
const provider = `['"\`](?:${providers})\\b[^'"\`]*['"\`]`;
/** What runs in the browser keeps those rules, too, that are not about rooms. */
const written = /^(?:src|dashboard)\/.*\.tsx?$/;
const comparison = '[!=]==?\\s*|\\bcase\\s+|\\b(?:starts|ends)With\\(|\\bincludes\\(';

const bannedTexts: Readonly<Record<string, BannedText>> = {
  'nothing is typed any': {
    because: 'It switches the checker off for all that follows. Take `unknown` and look.',
    pattern: /(?<![.\w$])any(?![\w$(:?])/g,
    within: written,
    bad: ['let a: any;', 'f(a as any);', 'type A = Map<string, any[]>;'],
    good: ["expect.any(A);\nconst a = 'any'; // any\nAbortSignal.any([/any/]);"],
  },
  'no checker is silenced': {
    because: 'The silence outlives its reason. Fix the type or the code.',
    pattern: /@ts-(?:ignore|expect-error|nocheck)|biome-ignore/g,
    within: written,
    view: 'text',
    bad: ['// @ts-ignore', '// @ts-expect-error', '/* biome-ignore lint: a */'],
  },
  'nothing writes to the console': {
    because: 'Operators read one structured log. Use telemetry, or process.stdout in a command.',
    pattern: /\bconsole\./g,
    bad: ['console.log(a);', `a = \`b \${console.error(\`\${c}\`)}\`;`],
    good: ["const a = 'console.log';"],
  },
  'only config reads the environment': {
    because: 'Settings have one list and one check. Add a field to the config and pass it in.',
    pattern: /\bprocess\.env\b|\bBun\.env\b|\bimport\.meta\.env\b/g,
    // A test may prove that a variable changes nothing.
    home: /^src\/config\/|\.test\.ts$/,
    bad: ['process.env.HOME;', 'Bun.env.HOME;'],
    good: [{ 'src/config/load.ts': 'process.env;' }],
  },
  'no text is run as code': {
    because: 'Whoever writes the text owns the process. Use a table of functions.',
    pattern: /(?<![.\w])eval\(|\bnew Function\b|['"](?:node:)?vm['"]/g,
    view: 'uncommented',
    bad: ["eval('a');", "new Function('a');", "import 'node:vm';"],
    good: ['redis.eval(script);'],
  },
  'no text becomes markup': {
    because: 'Models and clients write what the pages show. Put it in as text: <p>{text}</p>.',
    pattern: /\b(?:inner|outer)HTML\b|\bdangerouslySet|\binsertAdjacentHTML\b|\bdocument\.write\b/g,
    within: /^dashboard\//,
    bad: [
      { 'dashboard/a.tsx': 'a.innerHTML = b;' },
      { 'dashboard/a.tsx': '<p dangerouslySetInnerHTML={a} />' },
    ],
    good: [{ 'dashboard/a.tsx': '<p>{a}</p>;' }],
  },
  'only the command line starts processes': {
    because: 'A server that spawns is a server to break into. Do it in the process or in cli.',
    pattern: /\bchild_process\b|\bBun\.spawn|\bBun\.\$/g,
    view: 'uncommented',
    home: /^src\/(?:main\.ts|cli\/)|\.test\.ts$/,
    bad: ["import 'node:child_process';", 'Bun.spawn([a]);', 'Bun.spawnSync([a]);'],
    good: [{ 'src/cli/a.ts': 'Bun.spawn([a]);' }],
  },
  'randomness comes from crypto': {
    because: 'Guessable ids leak tenants. Use crypto, or take the randomness as an argument.',
    pattern: /\bMath\.random\b/g,
    bad: ['Math.random();'],
  },
  'no mark is left for later': {
    because: 'Later never comes to a comment. Do it now or open an issue.',
    pattern: /\b(?:TODO|FIXME|XXX|HACK)\b/g,
    within: written,
    view: 'text',
    bad: ['// TODO: a', '// FIXME', '/* XXX */', '// HACK'],
  },
  'every test runs': {
    because: 'A skipped test proves nothing, a focused one hides the rest. Mend or delete it.',
    pattern: /\.(?:skip|only|todo)(?:\.each)?\(/g,
    within: /^tests\/|\.test\.tsx?$/,
    bad: [{ 'src/a.test.ts': "test.skip('a', b);" }, { 'tests/a.ts': "describe.only('a', b);" }],
    good: [{ 'tests/a.test.ts': "const a = 'test.todo(';" }],
  },
  'objects are spread, not assigned into': {
    because: 'Object.assign changes its first argument under its readers. Write { ...a, ...b }.',
    pattern: /\bObject\.assign\((?!new )/g,
    bad: ['Object.assign(a, b);'],
  },
  'only rooms that touch the world keep timers': {
    because: 'A timer nobody owns outlives the drain. Make a chore of it.',
    pattern: /\bsetInterval\(/g,
    // The watch's own ticks only while somebody waits.
    home: /^src\/(?:core\/watch\.ts|upstream\/|store\/|.*\.test\.ts$)/,
    bad: ['setInterval(a, 1);'],
    good: [{ 'src/store/a.ts': 'setInterval(a, 1);' }],
  },
  'only upstream calls out': {
    because: 'Deadlines, pools and address checks live there. Take a client as an argument.',
    // The lookahead lets `fetch(request) {` pass: Bun.serve wants a method of that name.
    pattern:
      /(?<![.\w])fetch\((?![^()]*\)(?:: [\w<> |]+)? \{)|\bglobalThis\.fetch\b|\bBun\.connect\b/g,
    home: /^src\/(?:upstream\/|demo\/.*\.test\.ts$)/,
    bad: ['await fetch(a);', 'fetch(a, { b })', 'globalThis.fetch;', 'Bun.connect({ a });'],
    good: ['Bun.serve({ async fetch(a: Request): Promise<Response> {} });\napp.fetch(a);'],
  },
  'providers are data, never compared': {
    because: 'The second `if` for a provider starts a jungle. Put the difference in its entry.',
    pattern: new RegExp(`(?:${comparison})${provider}|${provider}\\s*[!=]==?`, 'g'),
    view: 'uncommented',
    home: /\.(?:data|test)\.ts$/,
    bad: ["if (a === 'openai') b();", "a !== 'xai-oauth'", "case 'gemini':", "'groq' == a"],
    good: ["const a = { name: 'openai' };\na === 'open';", { 'src/a.data.ts': "a === 'xai'" }],
  },
  'no text names a registry': {
    because: 'Each machine has its own. Leave the host to the settings of npm.',
    pattern: /\bregistry\.[\w-]+\.\w|\bregistry ?= ?\S*:\/\//g,
    view: 'text',
    within: /^(?!package-lock\.json$)/,
    bad: [
      { 'docs/a.md': ['https://registry', 'npmjs', 'org'].join('.') },
      { '.npmrc': ['registry', 'http://a.example'].join('=') },
    ],
    good: [{ 'package-lock.json': ['https://registry', 'npmjs', 'org'].join('.') }],
  },
  'no text names a path of one machine': {
    because: 'It works for one person only. Write it relative to the repository.',
    pattern: /(?<![\w.~)}\]*-])\/(?:(?:work|root)\/|(?:home|Users)\/\w)/g,
    view: 'text',
    within: /^(?!package-lock\.json$)/,
    bad: [['', 'work', 'a'].join('/'), { 'README.md': ['see ', 'home', 'ann'].join('/') }],
    good: ['https://a.example/work/b', './root/a', '$HOME/a'],
  },
};

function findText({
  pattern,
  view = 'code',
  within = /^src\/.*\.tsx?$/,
  home,
}: BannedText): Rule['find'] {
  return (tree) =>
    filesIn(tree, within)
      .filter(({ path }) => !home?.test(path))
      .flatMap((file) =>
        [...file[view].matchAll(pattern)].map(
          (match) => `${file.path}:${lineAt(file.text, match.index)}: ${match[0].trim()}`,
        ),
      );
}

const rules: readonly (Rule & { name: string })[] = [
  ...Object.entries(structure).map(([name, rule]) => ({ name, ...rule })),
  ...Object.entries(bannedTexts).map(([name, ban]) => ({ name, ...ban, find: findText(ban) })),
];

describe('the house keeps its rules:', () => {
  const repository = readTree(posix.dirname(import.meta.dir));

  test.each(rules)('$name', ({ name, because, find }) => {
    const places = find(repository).map((place) => `\n  ${place}`);
    if (places.length > 0) throw new Error(`${name}. ${because}${places.join('')}`);
  });
});

describe('the scanner flags the bad samples and no look-alike:', () => {
  const run = (find: Rule['find'], sample: Sample) =>
    find(treeOf(typeof sample === 'string' ? { 'src/core/sample.ts': sample } : sample));

  test.each(rules)('$name', ({ find, bad, good = [] }) => {
    expect(bad.filter((sample) => run(find, sample).length === 0)).toEqual([]);
    expect(good.flatMap((sample) => run(find, sample))).toEqual([]);
  });
});
