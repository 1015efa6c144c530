import { parse } from 'yaml';
import { changeTenant } from '../auth/management/tenants.ts';
import { invalidRequest } from '../core/errors.ts';
import { fieldsOf, type JsonObject } from '../core/json.ts';
import type { Command, Topic } from './command.ts';
import { configCommands, listCommand } from './config-objects.ts';
import { printJson } from './output.ts';

/** Clears the plan of a tenant, as in `tollgate tenants change`. */
const defaultPlan = 'default';

const assign: Command = {
  name: 'assign',
  summary: `Give a tenant a plan; "${defaultPlan}" for billing.default_plan`,
  positional: '<name>',
  options: { tenant: { value: '<id>', summary: 'Tenant ID', required: true } },
  async run(context) {
    const { args } = context;
    const services = await context.services();
    const plan = args.positional === defaultPlan ? null : args.positional;
    const tenant = await changeTenant(services, args.text('tenant') ?? '', { plan });
    if (args.has('json')) return printJson(context, { data: tenant });
    const name = plan === null ? 'the default plan' : `the plan "${plan}"`;
    context.out(`The tenant "${tenant.id}" has ${name}.`);
  },
};

/** Describes a plan: `120% of list prices + request $0.001`. */
function marginText({
  factor_basis_points: factor = 10_000,
  surcharge,
  byok_fee_basis_points: fee,
}: JsonObject): string {
  const added = Object.entries(fieldsOf(surcharge)).map(([name, usd]) => `${name} $${usd}`);
  const parts = [`${Number(factor) / 100}% of list prices`, ...added];
  const byok = fee === undefined ? '' : `, own keys ${Number(fee) / 100}%`;
  return parts.join(' + ') + byok;
}

export const plans: Topic = {
  name: 'plans',
  summary: 'Manage what tenants pay compared to list prices',
  commands: [
    listCommand('plan', marginText),
    ...configCommands({
      kind: 'plan',
      positional: '<name>',
      fields: {
        'factor-basis-points': { value: '<n>', summary: '10000 is the list price, 12000 20% more' },
        surcharge: {
          value: '<yaml>',
          summary: 'US dollars added to prices, such as \'{ request: "0.001" }\'',
        },
        'byok-fee-basis-points': {
          value: '<n>',
          summary: "The fee for calls with a tenant's own provider key",
        },
      },
      documentIn: (args) => ({
        factor_basis_points: args.number('factor-basis-points'),
        surcharge: surchargeIn(args.text('surcharge')),
        byok_fee_basis_points: args.number('byok-fee-basis-points'),
      }),
    }),
    assign,
  ],
  examples: [
    'tollgate plans set reseller --factor-basis-points 12000',
    'tollgate plans assign reseller --tenant acme',
  ],
};

function surchargeIn(text: string | undefined): unknown {
  if (text === undefined) return undefined;
  try {
    return parse(text);
  } catch {
    throw invalidRequest('--surcharge must be YAML, such as { request: "0.001" }.', 'surcharge');
  }
}
