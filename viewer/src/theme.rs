//! Colours, spacing and type sizes, for light and for dark.
//!
//! Hues are those of Okabe and Ito's palette, which people with any form of
//! colour blindness can tell apart; nothing is told by colour alone.

use eframe::egui::{
    self, Color32, Context, CornerRadius, FontFamily, FontId, Margin, Shadow, Stroke, TextStyle,
    Theme, Visuals, style::WidgetVisuals, vec2,
};

/// The colours of a theme, named by what they mean.
#[derive(Clone, Copy, Debug)]
pub struct Palette {
    /// Behind everything.
    pub background: Color32,
    /// Bars and side panels.
    pub panel: Color32,
    /// Cards, buttons.
    pub raised: Color32,
    /// A button under the pointer.
    pub hovered: Color32,
    /// Thin lines.
    pub line: Color32,
    /// Text.
    pub text: Color32,
    /// Text of less weight.
    pub muted: Color32,
    /// What is chosen, and links.
    pub accent: Color32,
    /// Text on the accent.
    pub on_accent: Color32,
    /// A frame.
    pub bar: Color32,
    /// The part of a column between its lowest and highest frame.
    pub bar_spread: Color32,
    /// A frame in a phase.
    pub phase_bar: Color32,
    /// Behind a phase.
    pub phase: Color32,
    /// A spike.
    pub spike: Color32,
    /// The budget line.
    pub budget: Color32,
    /// Live bytes.
    pub live: Color32,
    /// The high-water mark.
    pub high_water: Color32,
    /// A mark set by the game.
    pub mark: Color32,
    /// Behind the frame that is chosen.
    pub chosen: Color32,
    /// Something to look at.
    pub warning: Color32,
    /// Behind a banner.
    pub banner: Color32,
    /// Something wrong.
    pub error: Color32,
}

const DARK: Palette = Palette {
    background: Color32::from_rgb(16, 19, 24),
    panel: Color32::from_rgb(22, 26, 33),
    raised: Color32::from_rgb(31, 37, 46),
    hovered: Color32::from_rgb(42, 50, 62),
    line: Color32::from_rgb(40, 47, 57),
    text: Color32::from_rgb(224, 229, 236),
    muted: Color32::from_rgb(146, 156, 171),
    accent: Color32::from_rgb(86, 180, 233),
    on_accent: Color32::from_rgb(10, 20, 28),
    bar: Color32::from_rgb(78, 160, 208),
    bar_spread: Color32::from_rgb(48, 95, 124),
    phase_bar: Color32::from_rgb(112, 97, 128),
    phase: Color32::from_rgb(34, 29, 42),
    spike: Color32::from_rgb(240, 112, 48),
    budget: Color32::from_rgb(230, 159, 0),
    live: Color32::from_rgb(0, 178, 132),
    high_water: Color32::from_rgb(240, 228, 66),
    mark: Color32::from_rgb(214, 140, 180),
    chosen: Color32::from_rgb(60, 72, 90),
    warning: Color32::from_rgb(240, 180, 60),
    banner: Color32::from_rgb(58, 44, 16),
    error: Color32::from_rgb(245, 120, 90),
};

const LIGHT: Palette = Palette {
    background: Color32::from_rgb(255, 255, 255),
    panel: Color32::from_rgb(245, 247, 250),
    raised: Color32::from_rgb(232, 236, 241),
    hovered: Color32::from_rgb(216, 223, 231),
    line: Color32::from_rgb(212, 218, 226),
    text: Color32::from_rgb(24, 30, 38),
    muted: Color32::from_rgb(92, 102, 116),
    accent: Color32::from_rgb(0, 104, 166),
    on_accent: Color32::from_rgb(255, 255, 255),
    bar: Color32::from_rgb(44, 132, 188),
    bar_spread: Color32::from_rgb(160, 203, 229),
    phase_bar: Color32::from_rgb(176, 160, 192),
    phase: Color32::from_rgb(241, 236, 247),
    spike: Color32::from_rgb(204, 82, 0),
    budget: Color32::from_rgb(176, 116, 0),
    live: Color32::from_rgb(0, 138, 100),
    high_water: Color32::from_rgb(128, 96, 0),
    mark: Color32::from_rgb(160, 70, 120),
    chosen: Color32::from_rgb(206, 219, 234),
    warning: Color32::from_rgb(150, 92, 0),
    banner: Color32::from_rgb(255, 243, 214),
    error: Color32::from_rgb(190, 50, 20),
};

impl Palette {
    /// The colours of a theme.
    pub fn of(theme: Theme) -> &'static Self {
        match theme {
            Theme::Dark => &DARK,
            Theme::Light => &LIGHT,
        }
    }

    /// The colours in use.
    pub fn current(context: &Context) -> &'static Self {
        Self::of(context.theme())
    }
}

/// Gives a context our look in both themes, and picks one.
pub fn apply(context: &Context, theme: Theme) {
    for each in [Theme::Dark, Theme::Light] {
        context.style_mut_of(each, |style| restyle(style, each));
    }
    context.set_theme(theme);
}

fn restyle(style: &mut egui::Style, theme: Theme) {
    let size = |points| FontId::new(points, FontFamily::Proportional);
    style.text_styles = [
        (TextStyle::Heading, size(17.0)),
        (TextStyle::Body, size(13.5)),
        (TextStyle::Button, size(13.5)),
        (TextStyle::Small, size(11.5)),
        (
            TextStyle::Monospace,
            FontId::new(12.0, FontFamily::Monospace),
        ),
    ]
    .into();
    style.spacing.item_spacing = vec2(8.0, 6.0);
    style.spacing.button_padding = vec2(9.0, 4.0);
    style.spacing.tooltip_width = 320.0;
    style.spacing.window_margin = Margin::same(14);
    style.spacing.menu_margin = Margin::same(10);
    style.animation_time = 0.0;
    style.interaction.selectable_labels = false;
    style.visuals = visuals(Palette::of(theme), theme);
}

fn visuals(palette: &Palette, theme: Theme) -> Visuals {
    let mut visuals = match theme {
        Theme::Dark => Visuals::dark(),
        Theme::Light => Visuals::light(),
    };
    visuals.panel_fill = palette.panel;
    visuals.window_fill = palette.panel;
    visuals.extreme_bg_color = palette.background;
    visuals.faint_bg_color = palette.raised;
    visuals.window_stroke = Stroke::new(1.0, palette.line);
    visuals.window_corner_radius = CornerRadius::same(8);
    visuals.menu_corner_radius = CornerRadius::same(6);
    visuals.window_shadow = Shadow {
        color: Color32::from_black_alpha(90),
        ..visuals.popup_shadow
    };
    visuals.selection.bg_fill = palette.accent;
    visuals.selection.stroke = Stroke::new(1.0, palette.on_accent);
    visuals.hyperlink_color = palette.accent;
    visuals.warn_fg_color = palette.warning;
    visuals.error_fg_color = palette.error;
    visuals.weak_text_color = Some(palette.muted);
    let widgets = &mut visuals.widgets;
    widgets.noninteractive = widget(palette.panel, palette.line, palette.text);
    widgets.inactive = widget(palette.raised, palette.line, palette.text);
    widgets.hovered = widget(palette.hovered, palette.accent, palette.text);
    widgets.active = widget(palette.hovered, palette.accent, palette.text);
    widgets.open = widget(palette.hovered, palette.line, palette.text);
    visuals
}

fn widget(fill: Color32, line: Color32, text: Color32) -> WidgetVisuals {
    WidgetVisuals {
        bg_fill: fill,
        weak_bg_fill: fill,
        bg_stroke: Stroke::new(1.0, line),
        corner_radius: CornerRadius::same(5),
        fg_stroke: Stroke::new(1.0, text),
        expansion: 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative luminance as the web's accessibility guidelines define it.
    fn luminance(colour: Color32) -> f32 {
        let rgba = egui::Rgba::from(colour);
        0.2126 * rgba.r() + 0.7152 * rgba.g() + 0.0722 * rgba.b()
    }

    fn contrast(a: Color32, b: Color32) -> f32 {
        let (a, b) = (luminance(a) + 0.05, luminance(b) + 0.05);
        a.max(b) / a.min(b)
    }

    #[test]
    fn text_is_readable_in_both_themes() {
        for palette in [&DARK, &LIGHT] {
            for ground in [palette.background, palette.panel, palette.raised] {
                assert!(contrast(palette.text, ground) >= 7.0);
                assert!(contrast(palette.muted, ground) >= 4.5);
            }
            assert!(contrast(palette.on_accent, palette.accent) >= 4.5);
            assert!(contrast(palette.warning, palette.banner) >= 4.5);
            assert!(contrast(palette.text, palette.banner) >= 7.0);
        }
    }

    #[test]
    fn what_is_drawn_stands_out_from_the_ground() {
        for palette in [&DARK, &LIGHT] {
            let drawn = [palette.bar, palette.spike, palette.budget, palette.live];
            for colour in drawn.into_iter().chain([palette.high_water, palette.mark]) {
                assert!(contrast(colour, palette.background) >= 3.0, "{colour:?}");
            }
        }
    }
}
