/**
 * The house rules. Each rule has samples that it must flag, to prove that the rule can fail, and
 * similar samples that it must accept. Delete a rule that nobody can defend.
 */
import { describe, expect, test } from 'bun:test';
import { posix } from 'node:path';
import { builtinCatalog } from '../src/config/catalog/index.ts';
import { mayImport, packageHomes } from './support/import-table.ts';
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

/** Files by path. A string is the text of a file in core. */
type Sample = string | Readonly<Record<string, string>>;

interface Rule {
  /** The reason, then the fix. */
  readonly because: string;
  /** Returns `path:line: problem` for each violation. */
  readonly find: (tree: Tree) => readonly string[];
  readonly bad: readonly Sample[];
  readonly good?: readonly Sample[];
}

const filesIn = (tree: Tree, within: RegExp) =>
  [...tree.values()].filter(({ path }) => within.test(path));
const productOf = (tree: Tree) => filesIn(tree, /^src\/.*(?<!\.test)\.tsx?$/);
const moduleOf = (path: string) => path.replace(/^src\//, '').split('/')[0] ?? '';

function mayReach(from: string, to: string, kind: Import['kind']): boolean {
  const { values, types = '' } = mayImport[from] ?? { values: '' };
  const allowed = kind === 'type' ? `${values} ${types}` : values;
  return from === to || values === '*' || allowed.split(' ').includes(to);
}

function findWrongImports(tree: Tree): string[] {
  return productOf(tree).flatMap((file) => {
    const module = moduleOf(file.path);
    if (!mayImport[module]) return [`${file.path}:1: ${module} is not in the table`];
    const wrong = importsOf(file).filter(({ to, kind }) => {
      const isOurs = to.startsWith('src/') || /^[\w.-]+\/.*\.tsx?$/.test(to);
      if (isOurs) return !mayReach(module, moduleOf(to), kind);
      const homes = packageHomes[to.split('/')[0] ?? ''] ?? module;
      return !homes.split(' ').includes(module);
    });
    return wrong.map((i) => `${file.path}:${i.line}: ${module} may not import ${i.to} (${i.kind})`);
  });
}

function findCycles(tree: Tree): string[] {
  const done = new Set<string>();
  const visit = (path: string, ancestors: readonly string[]): string[] => {
    const file = tree.get(path);
    if (!file || done.has(path)) return [];
    const chain = [...ancestors, path];
    // Type imports count, because files that need each other's types can't be read separately.
    const imports = importsOf(file).filter(({ kind }) => kind !== 'reference');
    const found = imports.flatMap(({ to, line }) =>
      chain.includes(to)
        ? [`${path}:${line}: ${[...chain.slice(chain.indexOf(to)), to].join(' → ')}`]
        : visit(to, chain),
    );
    done.add(path);
    return found;
  };
  return productOf(tree).flatMap(({ path }) => visit(path, []));
}

function findOrphans(tree: Tree): string[] {
  const entry = 'src/main.ts';
  if (!tree.has(entry)) return [`${entry}:1: is missing, so nothing can start`];
  const reached = new Set([entry]);
  for (const path of reached) {
    const file = tree.get(path);
    for (const { to } of file ? importsOf(file) : []) reached.add(to);
  }
  const isType = (path: string) => path.endsWith('.d.ts');
  const orphans = productOf(tree).filter(({ path }) => !reached.has(path) && !isType(path));
  return orphans.map(({ path }) => `${path}:1: is not reachable from ${entry}`);
}

function findUnusedExports(tree: Tree): string[] {
  const imports = filesIn(tree, /\.tsx?$/).flatMap(importsOf);
  const importsByFile = Map.groupBy(imports, ({ to }) => to);
  const isImported = (path: string, name: string) =>
    importsByFile.get(path)?.some(({ names }) => names?.includes(name) ?? true) ?? false;
  const exported = /^export (?:(?:async )?function\*?|(?:abstract )?class|const|let) ([\w$]+)/gm;
  return productOf(tree).flatMap(({ path, code }) =>
    [...code.matchAll(exported)]
      .filter(([, name = '']) => !isImported(path, name))
      .map(
        (match) =>
          `${path}:${lineAt(code, match.index)}: ${match[1]} is exported but never imported`,
      ),
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
  // A test suite is a list of tests, so only the tests count as functions.
  const isSuite = (body: string[]) => isTest && /\n\s*(?:test|describe)\b/.test(body.join('\n'));
  return [
    ...(lines.length > linesMax ? [`${path}:${linesMax}: ${lines.length} lines in the file`] : []),
    ...functionsOf(code)
      .filter((span) => span.lines.length > 70 && !isSuite(span.lines))
      .map((span) => `${path}:${span.line}: ${span.lines.length} lines in a function`),
    ...lines.flatMap((line, index) => {
      const columns = [...line].length;
      return columns > 100 && !path.endsWith('.data.ts') && !unbreakable.test(line)
        ? [`${path}:${index + 1}: ${columns} columns`]
        : [];
    }),
  ];
}

/** Test names and messages stay on one line so that a search finds them. */
const unbreakable = /^\s*(?:(?:test|describe)\(|['"`]|\/\^)/;

const lengthOf = ({ text }: SourceFile) => text.trimEnd().split('\n').length;

/** Files that are small because of their kind: each has one migration, command, or type. */
const smallByDesign = /^src\/(?:store\/migrations|cli)\/|\.d\.ts$/;

function findSmallFiles(tree: Tree): string[] {
  const product = productOf(tree);
  const importersOf = Map.groupBy(
    product.flatMap((file) =>
      [...new Set(importsOf(file).map(({ to }) => to))].map((to) => ({ to, from: file.path })),
    ),
    ({ to }) => to,
  );
  return product.flatMap((file) => {
    const importers = importersOf.get(file.path) ?? [];
    const [only] = importers;
    if (lengthOf(file) >= 40 || smallByDesign.test(file.path)) return [];
    if (!only || importers.length > 1) return [];
    if (posix.dirname(only.from) !== posix.dirname(file.path)) return [];
    return [`${file.path}:1: has ${lengthOf(file)} lines and one importer, ${only.from}`];
  });
}

/** compose/ wires modules together. Anything that decides or remembers belongs to a module. */
function findLogicInCompose(tree: Tree): string[] {
  const files = filesIn(tree, /^src\/compose\/.*(?<!\.test)\.ts$/);
  const classes = files.flatMap(({ path, code }) =>
    [...code.matchAll(/^\s*(?:export )?(?:abstract )?class (\w+)/gm)].map(
      (match) => `${path}:${lineAt(code, match.index)}: declares class ${match[1]}`,
    ),
  );
  const lines = files.reduce((sum, file) => sum + lengthOf(file), 0);
  return lines > 900 ? [...classes, `src/compose:1: has ${lines} lines`] : classes;
}

/** Words that have another meaning in the field. Identifiers and file names must not use them. */
const retired = new Set(
  `errand errands ask asks asked asker wish wishes dialogue crossing crossings teller tellers tell
  tells told untold say says said unsaid wording unheard heard mend mended mender mends misfit
  misfits facts trail tape tapes shelf shelves duty duties purse purses slip slips desk desks chore
  chores surroundings lasting place places placed room rooms tray crew door doors thrown picture
  pictures spoken former sequel verdict complaint unwell patience patiently payer keeper carrier
  kept given taken wanted sameness retell colour colours unreadable unusable strange heed obey obeys
  goes gone whole sayable`.split(/\s+/),
);
const wordsIn = (name: string) =>
  name
    .replace(/([a-z0-9])([A-Z])/g, '$1 $2')
    .replace(/([A-Z]+)([A-Z][a-z])/g, '$1 $2')
    .toLowerCase()
    .split(/[^a-z]+/);

function findRetiredWords(tree: Tree): string[] {
  return filesIn(tree, /^(?:src|dashboard)\/.*(?<!\.test|\.data|\.d)\.tsx?$/).flatMap((file) => {
    const names = [...file.code.matchAll(/[A-Za-z_$][\w$]*/g)].map(({ 0: name, index }) => ({
      name,
      line: lineAt(file.code, index),
    }));
    names.push({ name: posix.basename(file.path).replace(/\.tsx?$/, ''), line: 1 });
    return names
      .filter(({ name }) => wordsIn(name).some((word) => retired.has(word)))
      .map(({ name, line }) => `${file.path}:${line}: ${name}`);
  });
}

function findLongGlossary(tree: Tree): string[] {
  const text = tree.get('ARCHITECTURE.md')?.text;
  if (text === undefined) return [];
  const section = /^## Glossary$([\s\S]*?)(?=^## |$(?![\s\S]))/m.exec(text)?.[1];
  if (section === undefined) return ['ARCHITECTURE.md:1: has no section named Glossary'];
  const rows = section.split('\n').filter((line) => /^\| (?!Word|---)/.test(line)).length;
  return rows > 25 ? [`ARCHITECTURE.md:1: the glossary has ${rows} entries`] : [];
}

const vague = /^(?:utils?|helpers?|common|misc|managers?|base|shared|types|services?)$/;
const vagueEnd = /-(?:utils?|helpers?|misc|managers?)$/;

function findVagueNames(tree: Tree): string[] {
  const isVague = (part: string) => {
    const stem = part.replace(/(?<=.)\..*/, '');
    return vague.test(stem) || vagueEnd.test(stem);
  };
  const paths = [...tree.keys()].filter((path) => path.split('/').some(isVague));
  return paths.map((path) => `${path}:1: has a name that fits any content`);
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
  'modules import only what the table allows': {
    because:
      'A module can be read and tested without the modules that use it. ' +
      'Declare an interface and pass the implementation in from compose/, or propose a new row.',
    find: findWrongImports,
    bad: [
      "import { b } from '../store/b.ts';",
      "export * from '../money/b.ts';",
      "import {\n  type B,\n} from '../auth/b.ts';",
      "await import('../../tests/b.ts');",
      "import { Hono } from 'hono';",
      { 'src/auth/a.ts': "import type { B } from '../money/b.ts';" },
      { 'src/store/a.ts': "import { b } from '../http/b.ts';" },
      { 'src/money/a.ts': "new Worker(new URL('../store/b.ts', import.meta.url));" },
      { 'src/annex/a.ts': '' },
    ],
    good: [
      "// import { b } from '../store/b.ts';\nconst c = `import '../store/b.ts';`;",
      { 'src/store/a.ts': "import type { B } from '../money/b.ts';\nimport 'kysely';" },
      { 'src/core/a.test.ts': "import { b } from '../store/b.ts';" },
    ],
  },
  'imports form no cycle': {
    because:
      'Files in a cycle can be understood only together, and their load order is accidental. ' +
      'Move the code that both need into one of them or into a third file.',
    find: findCycles,
    bad: [
      { 'src/core/a.ts': "import './b.ts';", 'src/core/b.ts': "export * from './a.ts';" },
      { 'src/a.ts': "import './b.ts';", 'src/b.ts': "import type { A } from './a.ts';" },
    ],
    good: [{ 'src/a.ts': "import './b.ts';", 'src/b.ts': "new Worker(new URL('./a.ts', u));" }],
  },
  'every source file is reachable from main.ts': {
    because: 'A file that nothing imports is dead code. Import it or delete it.',
    find: findOrphans,
    bad: [{ 'src/main.ts': '', 'src/core/a.ts': '' }, { 'src/core/a.ts': '' }],
    good: [
      { 'src/main.ts': "import type { A } from './a.ts';", 'src/a.ts': '', 'src/a.test.ts': '' },
      { 'src/main.ts': "await import('./a.ts');", 'src/a.ts': '' },
      { 'src/main.ts': "new Worker(new URL('./a.ts', import.meta.url));", 'src/a.ts': '' },
    ],
  },
  'an exported value is imported by another file': {
    because: 'An export suggests that another file uses the value. Remove `export` or the value.',
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
    because:
      'A fresh clone contains only committed files. Rename the file so .gitignore does not match it.',
    find: findUncommitted,
    bad: ["import a from './data/a.json';"],
    good: [{ 'src/core/a.ts': "import './a.ts';\nimport 'yaml';" }],
  },
  'files have at most 400 lines (tests 600), functions 70, lines 100 columns': {
    because:
      'Longer files and functions often mix two concepts. Split them by what a reader looks for, ' +
      'extract helper functions, and keep long data in a *.data.ts file.',
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
      { 'src/a.test.ts': `test('${'a'.repeat(100)}', () => {\n  a;\n});` },
    ],
  },
  'a small file has several importers': {
    because:
      'A small file with one importer makes readers switch files for a few lines. ' +
      'Merge the file into its importer, or add it to smallByDesign and say why.',
    find: findSmallFiles,
    bad: [{ 'src/core/a.ts': "import './b.ts';", 'src/core/b.ts': 'a;' }],
    good: [
      {
        'src/core/a.ts': "import './b.ts';",
        'src/core/b.ts': 'a;',
        'src/core/c.ts': "import './b.ts';",
      },
      { 'src/auth/a.ts': "import '../core/b.ts';", 'src/core/b.ts': 'a;' },
      { 'src/core/a.ts': "import './b.ts';", 'src/core/b.ts': 'a;\n'.repeat(40) },
    ],
  },
  'compose/ only wires modules together': {
    because: 'Logic in the composition root has no tests of its own. Move it to its module.',
    find: findLogicInCompose,
    bad: [{ 'src/compose/a.ts': 'class A {}' }, { 'src/compose/a.ts': 'a;\n'.repeat(901) }],
    good: [{ 'src/compose/a.ts': 'const a = new A();' }, { 'src/core/a.ts': 'class A {}' }],
  },
  'names use the terms of the field': {
    because: 'Private terms slow readers down. Use the term that OpenAI or Stripe uses.',
    find: findRetiredWords,
    bad: ['const errand = 1;', 'class WaitingRoom {}', { 'src/core/told-facts.ts': '' }],
    good: ["const header = 'errand'; // told", 'const roommate = 1;'],
  },
  'the glossary has at most 25 entries': {
    because: 'Readers should already know most terms. Use a common term instead of a new one.',
    find: findLongGlossary,
    bad: [
      { 'ARCHITECTURE.md': `## Glossary\n${'| a | b |\n'.repeat(26)}` },
      { 'ARCHITECTURE.md': '# Architecture' },
    ],
    good: [{ 'ARCHITECTURE.md': `## Glossary\n| Word | Meaning |\n${'| a | b |\n'.repeat(25)}` }],
  },
  'file names describe the content': {
    because: 'A file called utils could contain anything. Name the file after its content.',
    find: findVagueNames,
    bad: [{ 'src/utils/a.ts': '' }, { 'tests/types.test.ts': '' }, { 'src/key-manager.ts': '' }],
    good: [{ 'src/core/basement.ts': '' }, { 'src/http/content-types.ts': '' }],
  },
  'links in documents have a target that exists': {
    because: 'A broken link is no help to the reader. Link to something that exists.',
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
  /** The text to search. `code` has no comments and strings, `uncommented` only no comments. */
  readonly view?: 'code' | 'uncommented' | 'text';
  readonly within?: RegExp;
  readonly home?: RegExp;
}

const providers = ['google', ...builtinCatalog.providers.map(({ name }) => name)].join('|');
const provider = `['"\`](?:${providers})\\b[^'"\`]*['"\`]`;
/** Rules for all TypeScript code, including the dashboard. */
const written = /^(?:src|dashboard)\/.*\.tsx?$/;
const comparison = '[!=]==?\\s*|\\bcase\\s+|\\b(?:starts|ends)With\\(|\\bincludes\\(';

const bannedTexts: Readonly<Record<string, BannedText>> = {
  'nothing is typed any': {
    because: 'It turns off type checking for everything that follows. Use `unknown` and check.',
    pattern: /(?<![.\w$])any(?![\w$(:?])/g,
    within: written,
    bad: ['let a: any;', 'f(a as any);', 'type A = Map<string, any[]>;'],
    good: ["expect.any(A);\nconst a = 'any'; // any\nAbortSignal.any([/any/]);"],
  },
  'no checker is silenced': {
    because: 'The suppression outlives its reason. Fix the type or the code.',
    pattern: /@ts-(?:ignore|expect-error|nocheck)|biome-ignore/g,
    within: written,
    view: 'text',
    bad: ['// @ts-ignore', '// @ts-expect-error', '/* biome-ignore lint: a */'],
  },
  'nothing writes to the console': {
    because:
      'Operators read a single structured log. Use telemetry, or process.stdout in commands.',
    pattern: /\bconsole\./g,
    bad: ['console.log(a);', `a = \`b \${console.error(\`\${c}\`)}\`;`],
    good: ["const a = 'console.log';"],
  },
  'only config reads the environment': {
    because: 'Config lists and validates all settings. Add a config field and pass its value in.',
    pattern: /\bprocess\.env\b|\bBun\.env\b|\bimport\.meta\.env\b/g,
    // A test may set a variable to prove that it has no effect.
    home: /^src\/config\/|\.test\.ts$/,
    bad: ['process.env.HOME;', 'Bun.env.HOME;'],
    good: [{ 'src/config/load.ts': 'process.env;' }],
  },
  'no text is run as code': {
    because: 'The author of the text would control the process. Use a table of functions.',
    pattern: /(?<![.\w])eval\(|\bnew Function\b|['"](?:node:)?vm['"]/g,
    view: 'uncommented',
    bad: ["eval('a');", "new Function('a');", "import 'node:vm';"],
    good: ['redis.eval(script);'],
  },
  'no text is inserted as HTML': {
    because:
      'Pages show text from models and clients, which may be malicious. Write <p>{text}</p>.',
    pattern: /\b(?:inner|outer)HTML\b|\bdangerouslySet|\binsertAdjacentHTML\b|\bdocument\.write\b/g,
    within: /^dashboard\//,
    bad: [
      { 'dashboard/a.tsx': 'a.innerHTML = b;' },
      { 'dashboard/a.tsx': '<p dangerouslySetInnerHTML={a} />' },
    ],
    good: [{ 'dashboard/a.tsx': '<p>{a}</p>;' }],
  },
  'only the command line starts processes': {
    because: 'An attacker might run commands that way. Do the work in this process or in cli/.',
    pattern: /\bchild_process\b|\bBun\.spawn|\bBun\.\$/g,
    view: 'uncommented',
    home: /^src\/(?:main\.ts|cli\/)|\.test\.ts$/,
    bad: ["import 'node:child_process';", 'Bun.spawn([a]);', 'Bun.spawnSync([a]);'],
    good: [{ 'src/cli/a.ts': 'Bun.spawn([a]);' }],
  },
  'randomness comes from crypto': {
    because: 'Guessable IDs expose tenants. Use crypto, or take random values as an argument.',
    pattern: /\bMath\.random\b/g,
    bad: ['Math.random();'],
  },
  'no comment is a to-do': {
    because: 'To-do comments are forgotten. Do the work now or open an issue.',
    pattern: /\b(?:TODO|FIXME|XXX|HACK)\b/g,
    within: written,
    view: 'text',
    bad: ['// TODO: a', '// FIXME', '/* XXX */', '// HACK'],
  },
  'every test runs': {
    because:
      'A skipped test checks nothing, and a focused test skips all others. Fix or delete it.',
    pattern: /\.(?:skip|only|todo)(?:\.each)?\(/g,
    within: /^tests\/|\.test\.tsx?$/,
    bad: [{ 'src/a.test.ts': "test.skip('a', b);" }, { 'tests/a.ts': "describe.only('a', b);" }],
    good: [{ 'tests/a.test.ts': "const a = 'test.todo(';" }],
  },
  'random tests take the seed of the run': {
    because: 'A random failure must be repeatable. Import fc from tests/support/random.ts.',
    pattern: /from 'fast-check'/g,
    within: /^tests\/|\.test\.tsx?$/,
    view: 'uncommented',
    home: /^tests\/(?:support\/random|house-rules\.test)\.ts$/,
    bad: [{ 'src/a.test.ts': "import fc from 'fast-check';" }],
    good: [{ 'src/a.test.ts': "import { fc } from '../tests/support/random.ts';" }],
  },
  'tests that poll have a bound': {
    because: 'A test that only times out says nothing. Use waitUntil of tests/support.',
    pattern: /\bwhile \(.*\) await (?:Bun\.sleep|once|nextTurn|new Promise)\b/g,
    within: /^tests\/|\.test\.tsx?$/,
    bad: [{ 'tests/a.ts': 'while (!(await a())) await Bun.sleep(5);' }],
    good: [{ 'tests/a.ts': 'await waitUntil(a);\nwhile (a.length < 2) a.push(await b());' }],
  },
  'objects are spread, not assigned into': {
    because: 'Object.assign changes its first argument in place. Write { ...a, ...b }.',
    pattern: /\bObject\.assign\((?!new )/g,
    bad: ['Object.assign(a, b);'],
  },
  'only I/O modules create interval timers': {
    because: 'A timer without an owner keeps running at shutdown. Use a periodic task.',
    pattern: /\bsetInterval\(/g,
    // The deadline watcher ticks only while a deadline is pending.
    home: /^src\/(?:core\/deadlines\.ts|upstream\/|store\/|.*\.test\.ts$)/,
    bad: ['setInterval(a, 1);'],
    good: [{ 'src/store/a.ts': 'setInterval(a, 1);' }],
  },
  'only upstream/ and call-configured-server.ts send requests': {
    because: 'They have the deadlines, pools, and address checks. Take a client as an argument.',
    // The lookahead allows methods such as `fetch(request) {`, which Bun.serve requires.
    pattern:
      /(?<![.\w])fetch\((?![^()]*\)(?:: [\w<> |]+)? \{)|\bglobalThis\.fetch\b|\bBun\.connect\b/g,
    home: /^src\/(?:upstream\/|core\/call-configured-server\.ts|demo\/.*\.test\.ts$)/,
    bad: ['await fetch(a);', 'fetch(a, { b })', 'globalThis.fetch;', 'Bun.connect({ a });'],
    good: ['Bun.serve({ async fetch(a: Request): Promise<Response> {} });\napp.fetch(a);'],
  },
  'code does not compare provider names': {
    because: 'One `if` per provider becomes hundreds. Add a quirk to the data of the provider.',
    pattern: new RegExp(`(?:${comparison})${provider}|${provider}\\s*[!=]==?`, 'g'),
    view: 'uncommented',
    home: /\.(?:data|test)\.ts$/,
    bad: ["if (a === 'openai') b();", "a !== 'xai-oauth'", "case 'gemini':", "'groq' == a"],
    good: ["const a = { name: 'openai' };\na === 'open';", { 'src/a.data.ts': "a === 'xai'" }],
  },
  'no text names a package registry': {
    because: 'Each machine may use a different registry. Leave the host to the npm settings.',
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
    because: 'The path exists only on one machine. Write a path relative to the repository.',
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

describe('the repository follows the house rules:', () => {
  const repository = readTree(posix.dirname(import.meta.dir));

  test.each(rules)('$name', ({ name, because, find }) => {
    const violations = find(repository).map((violation) => `\n  ${violation}`);
    if (violations.length > 0) throw new Error(`${name}. ${because}${violations.join('')}`);
  });
});

describe('each house rule flags its bad samples and accepts its good ones:', () => {
  const run = (find: Rule['find'], sample: Sample) =>
    find(treeOf(typeof sample === 'string' ? { 'src/core/sample.ts': sample } : sample));

  test.each(rules)('$name', ({ find, bad, good = [] }) => {
    expect(bad.filter((sample) => run(find, sample).length === 0)).toEqual([]);
    expect(good.flatMap((sample) => run(find, sample))).toEqual([]);
  });
});
