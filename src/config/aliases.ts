import { didYouMean } from '../core/text.ts';
import type { AliasConfig, AliasTarget } from './alias-schema.ts';
import type { ConfigProblem } from './problems.ts';

/** An operator's own name for one or more models. */
export interface Alias {
  readonly name: string;
  readonly description: string;
  readonly targets: readonly AliasTarget[];
}

/** The models of the demo. They can be named while the demo is off, and are rejected then. */
const demoModelIds = [
  'demo/chat',
  'demo/embed',
  'demo/speech',
  'demo/transcribe',
  'demo/image',
] as const;
export type DemoModelId = (typeof demoModelIds)[number];

/** Reads the section `aliases`. */
export function readAliases(
  section: Readonly<Record<string, AliasConfig>>,
  models: ReadonlySet<string>,
  problems: ConfigProblem[],
): readonly Alias[] {
  const known = new Set([...models, ...demoModelIds]);
  return Object.entries(section).map(([name, { description = '', models: listed }]) => {
    const targets = listed.map((one) => (typeof one === 'string' ? { model: one } : one));
    const path = `aliases.${name}.models`;
    for (const [index, { model }] of targets.entries()) {
      const problem = targetProblem(name, model, known);
      if (problem === undefined) continue;
      const field = typeof listed[index] === 'string' ? '' : '.model';
      problems.push({ path: `${path}[${index}]${field}`, message: problem });
    }
    const weighted = targets.filter(({ weight }) => weight !== undefined);
    if (weighted.length > 0 && weighted.every(({ weight }) => weight === 0)) {
      problems.push({ path, message: 'must have a model whose weight is above 0' });
    }
    return { name, description, targets };
  });
}

function targetProblem(
  alias: string,
  model: string,
  known: ReadonlySet<string>,
): string | undefined {
  if (known.has(model)) return undefined;
  if (!model.endsWith('*')) {
    return `names "${model}", which is not the ID of a model${didYouMean(model, known) || ''}`;
  }
  if (!alias.endsWith('*')) return 'can only end in "*" if the name of the alias does';
  const prefix = model.slice(0, -1);
  if (known.values().some((id) => id.startsWith(prefix))) return undefined;
  return `names "${model}", but no ID of a model starts with "${prefix}"`;
}
