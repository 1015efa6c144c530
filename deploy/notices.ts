/**
 * Writes THIRD_PARTY_NOTICES.md: the license of each production dependency, including the runtime.
 * Run it after a production dependency changes:
 *
 *   npm run notices
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const root = join(import.meta.dir, '..');
const read = (...path: string[]) => readFileSync(join(root, ...path), 'utf8');

interface LockEntry {
  readonly version: string;
  readonly license?: string;
  readonly dev?: boolean;
  readonly devOptional?: boolean;
}

interface Lock {
  readonly packages: Readonly<Record<string, LockEntry>>;
}

interface Dependency extends LockEntry {
  readonly name: string;
  readonly folder: string;
}

const introduction = `# Third-party notices

Tollgate's npm package, executables, and container image install or contain the software below.
Each package is listed with its version, its license, and the license text.
`;

/** Bun's npm package has no license text. Its binaries link libraries under other licenses. */
function bunLicense(version: string): string {
  const [, mit = ''] = read('LICENSE').split(/^Copyright .*\n\n/m);
  return `Bun is licensed under the MIT License, which is below. Its binaries statically link
JavaScriptCore and other parts of WebKit (LGPL 2), TinyCC (LGPL 2.1), and libraries under
permissive licenses. The complete list for this version, and how to relink Bun with a modified
WebKit, is at https://github.com/oven-sh/bun/blob/bun-v${version}/LICENSE.md

${mit}`;
}

/** Returns the production dependencies in package-lock.json, sorted by name. */
export function productionDependencies(): Dependency[] {
  const { packages } = JSON.parse(read('package-lock.json')) as Lock;
  return (
    Object.entries(packages)
      .filter(([folder, { dev, devOptional }]) => folder !== '' && !dev && !devOptional)
      .map(([folder, entry]) => ({
        ...entry,
        folder,
        name: folder.replace(/.*node_modules\//, ''),
      }))
      // Bun's binary for each platform is a separate package, which Bun's own entry covers.
      .filter(({ name }) => !name.startsWith('@oven/bun-'))
      .sort((a, b) => (a.name < b.name ? -1 : 1))
  );
}

function licenseText({ name, version, folder }: Dependency): string {
  if (name === 'bun') return bunLicense(version);
  const files = readdirSync(join(root, folder)).toSorted();
  const file = files.find((one) => /^licen[cs]e/i.test(one));
  if (file !== undefined) return read(folder, file);
  const readme = files.find((one) => /^readme/i.test(one));
  const sections = readme === undefined ? [] : read(folder, readme).split(/^#+ /m);
  const section = sections.find((one) => /^licen[cs]e\s/i.test(one));
  if (section === undefined) throw new Error(`${folder} has no license text.`);
  return section.replace(/.*/, '');
}

function notice(dependency: Dependency): string {
  const { name, version, license = 'see below' } = dependency;
  const text = licenseText(dependency)
    .replaceAll('\r', '')
    .replace(/[ \t]+$/gm, '');
  const body = text.replace(/^\n+|\n+$/g, '');
  return `## ${name} ${version}\n\nLicense: ${license}\n\n\`\`\`text\n${body}\n\`\`\`\n`;
}

/** The vocabulary comes from a development dependency, which takes it from OpenAI's tiktoken. */
function vocabularyNotice(): string {
  const { packages } = JSON.parse(read('package-lock.json')) as Lock;
  const folder = 'node_modules/gpt-tokenizer';
  const { version = '' } = packages[folder] ?? {};
  const mit = read(folder, 'LICENSE').trim();
  const copyright = 'Copyright (c) 2022 OpenAI, Shantanu Jain';
  return `## cl100k_base

License: MIT

src/operations/embeddings/cl100k_base.txt has the tokens of OpenAI's tiktoken, as published in
gpt-tokenizer ${version}.

\`\`\`text
${mit.replace(/^Copyright/m, `${copyright}\nCopyright`)}
\`\`\`
`;
}

/** Returns the text of THIRD_PARTY_NOTICES.md. */
export function thirdPartyNotices(): string {
  return [introduction, vocabularyNotice(), ...productionDependencies().map(notice)].join('\n');
}

if (import.meta.main) await Bun.write(join(root, 'THIRD_PARTY_NOTICES.md'), thirdPartyNotices());
