// Edits one element of the page and says what it did; `null` if the page has nothing to edit this way.
// The random numbers come from outside, so that a case can be made again.
([kind, seed]) => {
  let state = seed >>> 0 || 1;
  const random = () => { state ^= state << 13; state >>>= 0; state ^= state >>> 17; state ^= state << 5; state >>>= 0; return state / 4294967296; };
  const pick = list => list[Math.floor(random() * list.length)];
  const rect = el => {
    let box = null;
    const add = r => { if (r.width > 0 && r.height > 0) box = box ? [Math.min(box[0], r.left), Math.min(box[1], r.top), Math.max(box[2], r.right), Math.max(box[3], r.bottom)] : [r.left, r.top, r.right, r.bottom]; };
    add(el.getBoundingClientRect());
    for (const each of el.querySelectorAll('*')) add(each.getBoundingClientRect());
    if (!box) return null;
    return [box[0] + scrollX, box[1] + scrollY, box[2] - box[0], box[3] - box[1]];
  };
  const inView = el => { const r = el.getBoundingClientRect(); return r.top >= 0 && r.left >= 0 && r.bottom <= innerHeight && r.right <= innerWidth && r.width >= 6 && r.height >= 6; };
  const visible = el => { const s = getComputedStyle(el); return s.visibility === 'visible' && s.display !== 'none' && +s.opacity > 0.5; };
  const all = [...document.body.querySelectorAll('*')].filter(el => inView(el) && visible(el) && !['SCRIPT', 'STYLE', 'OPTION', 'TBODY', 'TR', 'BR', 'SVG', 'RECT'].includes(el.tagName.toUpperCase()) && !(el instanceof SVGElement));
  const leaves = all.filter(el => el.childNodes.length === 1 && el.firstChild.nodeType === 3 && el.textContent.trim().length >= 3 && el.textContent.trim().length <= 60);
  const areaShare = el => { const r = el.getBoundingClientRect(); return r.width * r.height / (innerWidth * innerHeight); };
  const blocks = all.filter(el => ['block', 'flex', 'list-item', 'table', 'grid'].includes(getComputedStyle(el).display) && getComputedStyle(el).position === 'static' && areaShare(el) < 0.3 && el.textContent.trim().length > 2);
  const boxes = all.filter(el => areaShare(el) < 0.15 && (getComputedStyle(el).backgroundColor !== 'rgba(0, 0, 0, 0)' || el.tagName === 'IMG') && el.getBoundingClientRect().width >= 16);
  const style = (el, values) => { for (const [name, value] of Object.entries(values)) el.style.setProperty(name, value, 'important'); };
  // Where everything a reader sees lies: pieces of text and pictures, so that the record can say what else moved.
  const places = () => {
    const found = new Map();
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT | NodeFilter.SHOW_ELEMENT);
    while (walker.nextNode()) {
      const node = walker.currentNode;
      if (node.nodeType === 3 ? !node.textContent.trim() || !visible(node.parentElement) : !['IMG', 'INPUT', 'BUTTON'].includes(node.tagName)) continue;
      const range = document.createRange();
      range.selectNode(node);
      const r = range.getBoundingClientRect();
      if (r.width >= 1 && r.height >= 1 && r.bottom > 0 && r.top < innerHeight && r.right > 0 && r.left < innerWidth) found.set(node, [r.left, r.top]);
    }
    return found;
  };
  // How many pieces outside the edited element moved down or up by `push` alone, and how many moved otherwise.
  const followed = (was, el, push) => {
    let followers = 0, strays = 0;
    for (const [node, [left, top]] of places()) {
      if (!was.has(node) || el.contains(node)) continue;
      const right = left - was.get(node)[0], down = top - was.get(node)[1];
      if (Math.abs(right) < 1 && Math.abs(down) < 1) continue;
      if (Math.abs(right) < 1 && Math.abs(down - push) < 2) followers++; else strays++;
    }
    return { followers, strays };
  };
  const done = (el, old, more) => ({ kind, old, new: el.isConnected ? rect(el) : null, tag: el.tagName.toLowerCase(), ...more });
  const grey = level => `rgb(${level}, ${level}, ${level})`;

  if (kind === 'text') {
    const el = pick(leaves.filter(el => /[A-Za-z0-9]{2}/.test(el.textContent)));
    if (!el) return null;
    const old = rect(el), before = el.textContent;
    const digits = /\d/.test(before), words = before.trim().split(/\s+/);
    let after;
    if (digits) after = before.replace(/\d/, d => String((+d + 1 + Math.floor(random() * 8)) % 10));
    else if (words.length > 1 && random() < 0.7) { const n = Math.floor(random() * words.length); words[n] = pick(['orange', 'changed', 'Total', 'other', 'support', 'river', 'nothing']); after = words.join(' '); }
    else { const n = Math.floor(random() * (before.length - 1)); after = before.slice(0, n) + pick('aeksmrt'.split('')) + before.slice(n + 1); }
    el.textContent = after;
    return done(el, old, { before: before.trim(), after: after.trim() });
  }
  if (kind === 'text colour' || kind === 'font weight' || kind === 'font size') {
    const el = pick(leaves); if (!el) return null;
    const old = rect(el), now = getComputedStyle(el);
    if (kind === 'text colour') style(el, { color: pick(['#d1242f', '#0a7f3f', '#7a3ff2', '#b35900', '#0b61c4']) });
    if (kind === 'font weight') style(el, { 'font-weight': +now.fontWeight >= 600 ? 400 : 700 });
    if (kind === 'font size') style(el, { 'font-size': parseFloat(now.fontSize) * pick([0.75, 1.2, 1.35]) + 'px' });
    return done(el, old, { before: el.textContent.trim(), after: el.textContent.trim() });
  }
  if (kind === 'slight') {
    const el = pick(boxes.filter(el => el.tagName !== 'IMG').concat(leaves)); if (!el) return null;
    const old = rect(el), way = pick(['opacity', 'border', 'ground', 'ink']);
    if (way === 'opacity') style(el, { opacity: 0.9 });
    if (way === 'border') style(el, { outline: '1px solid ' + grey(225), 'outline-offset': '-1px' });
    if (way === 'ground') style(el, { 'background-color': grey(242) });
    if (way === 'ink') style(el, { color: grey(136) });
    return done(el, old, { way });
  }
  if (kind === 'ground colour') {
    const el = pick(boxes.filter(el => el.tagName !== 'IMG')); if (!el) return null;
    const old = rect(el);
    style(el, { background: pick(['#ffd8a8', '#c3fae8', '#d0bfff', '#ffc9c9', '#1864ab', '#5c940d']) });
    return done(el, old, {});
  }
  if (kind === 'size') {
    const el = pick(boxes); if (!el) return null;
    const old = rect(el), r = el.getBoundingClientRect(), by = pick([0.8, 1.15, 1.3]);
    style(el, { width: r.width * by + 'px', height: r.height * by + 'px', 'min-width': 0, 'max-width': 'none', 'box-sizing': 'border-box' });
    return done(el, old, {});
  }
  if (kind === 'position') {
    const el = pick(all.filter(el => areaShare(el) < 0.08)); if (!el) return null;
    const old = rect(el), by = [Math.round((random() - 0.5) * 80), Math.round((random() - 0.5) * 60)];
    if (!by[0] && !by[1]) by[0] = 7;
    style(el, { position: 'relative', left: by[0] + 'px', top: by[1] + 'px' });
    return done(el, old, { shift: by });
  }
  if (kind === 'hidden') {
    const el = pick(all.filter(el => areaShare(el) < 0.2)); if (!el) return null;
    const old = rect(el); style(el, { visibility: 'hidden' });
    for (const each of el.querySelectorAll('*')) style(each, { visibility: 'hidden' });
    return done(el, old, { new: null });
  }
  if (kind === 'removed') {
    const el = pick(blocks.concat(boxes)); if (!el) return null;
    const old = rect(el); el.remove();
    return done(el, old, {});
  }
  if (kind === 'removed block') {
    const el = pick(blocks.filter(el => el.nextElementSibling && el.getBoundingClientRect().bottom < innerHeight * 0.6)); if (!el) return null;
    const old = rect(el), next = el.nextElementSibling, top = next.getBoundingClientRect().top, was = places(); el.remove();
    const push = Math.round(next.getBoundingClientRect().top - top);
    return done(el, old, { push, ...followed(was, el, push) });
  }
  if (kind === 'inserted' || kind === 'inserted block') {
    const next = pick(kind === 'inserted block' ? blocks.filter(el => el.getBoundingClientRect().top < innerHeight * 0.5) : blocks); if (!next) return null;
    const top = next.getBoundingClientRect().top, was = places();
    const el = next.tagName === 'LI' ? document.createElement('li') : document.createElement('div');
    el.textContent = pick(['We use cookies to improve this page.', 'New: read what changed in version 2.', 'Maintenance on Sunday from 10 to 12.']);
    if (el.tagName === 'DIV') style(el, { background: pick(['#fff3bf', '#ffe3e3', '#d3f9d8']), color: '#333', padding: pick(['6px 12px', '14px 20px']), margin: '0' });
    next.before(el);
    const push = Math.round(next.getBoundingClientRect().top - top);
    return done(el, null, { push, ...followed(was, el, push), after: el.textContent });
  }
  if (kind === 'reordered') {
    // Rows, list items, cards, paragraphs: not two words of a sentence.
    const el = pick(all.filter(el => el.nextElementSibling && inView(el.nextElementSibling) && areaShare(el) < 0.2 && areaShare(el.nextElementSibling) < 0.2 && el.nextElementSibling.textContent !== el.textContent && getComputedStyle(el).position === 'static' && el.tagName === el.nextElementSibling.tagName && getComputedStyle(el).display !== 'inline'));
    if (!el) return null;
    const other = el.nextElementSibling, old = [rect(el), rect(other)];
    other.after(el);
    return { kind, old: old[0], new: rect(el), old_other: old[1], new_other: rect(other), tag: el.tagName.toLowerCase() };
  }
  if (kind === 'image') {
    const el = pick(all.filter(el => el.tagName === 'IMG' && el.getBoundingClientRect().width >= 16)); if (!el) return null;
    const old = rect(el), r = el.getBoundingClientRect();
    let shapes = '';
    for (let n = 0; n < 6; n++) shapes += `<rect x="${random() * r.width}" y="${random() * r.height}" width="${random() * r.width / 2}" height="${random() * r.height / 2}" fill="hsl(${random() * 360},70%,50%)"/>`;
    style(el, { width: r.width + 'px', height: r.height + 'px' });
    el.removeAttribute('srcset');
    el.src = 'data:image/svg+xml;base64,' + btoa(`<svg xmlns="http://www.w3.org/2000/svg" width="${r.width}" height="${r.height}"><rect width="100%" height="100%" fill="hsl(${random() * 360},30%,60%)"/>${shapes}</svg>`);
    return done(el, old, {});
  }
  if (kind === 'z-order') {
    const el = pick(all.filter(el => getComputedStyle(el).position === 'absolute' && /\d/.test(getComputedStyle(el).zIndex))); if (!el) return null;
    const old = rect(el);
    style(el, { 'z-index': +getComputedStyle(el).zIndex > 1 ? 0 : 9 });
    return done(el, old, {});
  }
  return null;
}
