import { fieldsOf, type JsonObject } from '../../src/core/json.ts';
import { NumberField } from '../components/field.tsx';
import { PriceFields } from '../components/price-fields.tsx';
import { type FormPartProps, fieldSetter, numberOf } from '../config-form.ts';
import { percent, usd } from '../format.ts';
import { priceProblems, setPrices } from '../price-history.ts';
import type { ConfigObject } from '../shapes.ts';

export function isPlanField(path: string): boolean {
  return /^(?:factor_basis_points|byok_fee_basis_points|surcharge\.\w+)$/.test(path);
}

export function planProblems({ surcharge }: JsonObject): ReadonlyMap<string, string> {
  return priceProblems(fieldsOf(surcharge), 'surcharge');
}

/** A factor of 1, which charges the list price. */
const listFactor = 10_000;
const examplePrice = 3;

/** The margin of a plan. */
export function PlanFields({ document, onDocument, errorAt }: FormPartProps) {
  const set = fieldSetter(document, onDocument);
  const factor = numberOf(document.factor_basis_points);
  const fee = numberOf(document.byok_fee_basis_points);
  const surcharge = fieldsOf(document.surcharge) as Readonly<Record<string, string>>;
  const charged = (examplePrice * (factor ?? listFactor)) / listFactor;
  return (
    <>
      <div class="pair">
        <NumberField
          label="Margin (%)"
          min="-100"
          max="9900"
          step="0.01"
          placeholder="0"
          value={factor === undefined ? undefined : (factor - listFactor) / 100}
          onNumber={(value) =>
            set('factor_basis_points', value === undefined ? value : listFactor + points(value))
          }
          error={errorAt('factor_basis_points')}
        />
        <NumberField
          label="Fee for own provider keys (%)"
          min="0"
          max="1000"
          step="0.01"
          placeholder="default"
          value={fee === undefined ? undefined : fee / 100}
          onNumber={(value) =>
            set('byok_fee_basis_points', value === undefined ? value : points(value))
          }
          error={errorAt('byok_fee_basis_points')}
        />
      </div>
      <p class="hint">
        A list price of {usd(examplePrice)} becomes {usd(charged)}. A negative margin is a discount.
      </p>
      <h3>Surcharges</h3>
      <p class="hint">Dollars that are added to a price, after the margin.</p>
      <PriceFields
        prices={surcharge}
        none="none"
        main={['request', 'prompt', 'completion']}
        onPrice={(name, text) => {
          const { [name]: _, ...rest } = surcharge;
          const changed = text === '' ? rest : { ...rest, [name]: text };
          set('surcharge', Object.keys(changed).length > 0 ? changed : undefined);
        }}
        errorAt={(name) => errorAt(`surcharge.${name}`)}
      />
    </>
  );
}

/** Returns hundredths of a percent. The field allows only 2 decimals. */
const points = (value: number) => Math.round(value * 100);

/** `+20%`, `list prices`, `−10%`, with the number of surcharges. */
export function marginText({ config }: ConfigObject): string {
  const { factor_basis_points: factor = listFactor, surcharge } = config ?? {};
  const margin = (Number(factor) - listFactor) / 100;
  const sign = margin > 0 ? '+' : '−';
  const text = margin === 0 ? 'list prices' : `${sign}${percent(Math.abs(margin))}`;
  const surcharges = setPrices(fieldsOf(surcharge)).length;
  return surcharges === 0 ? text : `${text}, and surcharges`;
}
