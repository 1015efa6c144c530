import { didYouMean } from '../core/text.ts';
import type { AliasConfig, AliasTarget } from './alias-schema.ts';
import type { ConfigProblem } from './problems.ts';

/** An operator's own name for one or more models. */
export interface Alias {
  readonly name: string;
  readonly description: string;
  readonly targets: readonly AliasTarget[];
}

/** Reads the section `aliases`. Each target is the ID of a model; the demo's are added later. */
export function readAliases(
  section: Readonly<Record<string, AliasConfig>>,
  models: ReadonlySet<string>,
  problems: ConfigProblem[],
): readonly Alias[] {
  return Object.entries(section).map(([name, { description = '', models: listed }]) => {
    const targets = listed.map((one) => (typeof one === 'string' ? { model: one } : one));
    const path = `aliases.${name}.models`;
    for (const [index, { model }] of targets.entries()) {
      if (models.has(model) || model.startsWith('demo/')) continue;
      const field = typeof listed[index] === 'string' ? '' : '.model';
      const hint = didYouMean(model, models) || '';
      const message = `names "${model}", which is not the ID of a model${hint}`;
      problems.push({ path: `${path}[${index}]${field}`, message });
    }
    const weighted = targets.filter(({ weight }) => weight !== undefined);
    if (weighted.length > 0 && weighted.every(({ weight }) => weight === 0)) {
      problems.push({ path, message: 'must have a model whose weight is above 0' });
    }
    return { name, description, targets };
  });
}
